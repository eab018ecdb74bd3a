"""Suggests a comparison with past days: one that blocks, if none of the hours seen was out of its bounds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from batch_layer.audit.built_in_expectations import Facts
from hourline_core.model import History

_FARTHER = (1.0, 1.2, 1.6, 2.0, 3.0, 4.0)
"""The widths to try, in units of the declared one."""


@dataclass(frozen=True)
class SuggestedHistory:
    """A comparison with past days, and what was seen, in words."""

    history: History | None
    """None: nothing can be compared yet."""
    seen: str


def suggest_history(
    declared: History, compare: Callable[[History], Facts], adding_up: Sequence[str]
) -> SuggestedHistory:
    """Suggest the least width from the ``declared`` one on that all hours seen are within. If there is none, the
    declared width, with a warning. Nothing is suggested if it would find no hour with twice or half its events.
    ``compare`` makes the comparison of the hours seen with past days. ``adding_up`` are the values that double when the
    events of an hour do.
    """
    for factor in _FARTHER:
        history = declared.model_copy(update={"severity": "fail", "width": declared.width * factor})
        compared = list(_collect_values(compare(history)))
        if not compared:
            return SuggestedHistory(None, f"nothing to compare before {history.learning} past days are known")
        if all(one.is_within(one.value) for one in compared):
            return _suggest(history, "all hours are within", compared, adding_up)
    warning = declared.model_copy(update={"severity": "warn"})
    compared = list(_collect_values(compare(warning)))
    beyond = {one.hour for one in compared if not one.is_within(one.value)}
    return _suggest(warning, f"{len(beyond):,} hours are not within", compared, adding_up)


@dataclass(frozen=True)
class _Compared:
    """A value of an hour, and its bounds."""

    hour: str
    name: str
    value: float
    lower: float
    upper: float

    def is_within(self, value: float) -> bool:
        return self.lower <= value <= self.upper


def _collect_values(facts: Facts) -> Iterator[_Compared]:
    for check in facts.checks:
        if check.origin != "history" or check.band is None:
            continue
        name = check.parameters["column"].removesuffix(" beyond past days")
        for row in facts.frame[["hour", *check.band]].dropna().itertuples(index=False, name=None):
            yield _Compared(row[0], name, *map(float, row[1:]))


def _suggest(history: History, seen: str, compared: Sequence[_Compared], adding_up: Sequence[str]) -> SuggestedHistory:
    """``history``, with how many of the hours with events it would find if they had other numbers of them."""
    of_events = [one for one in compared if one.name in adding_up and one.value > 0]
    hours = {one.hour for one in of_events}
    if not hours:
        return SuggestedHistory(history, f"{seen}; none of the values grows with the number of events")
    found = [{one.hour for one in of_events if not one.is_within(one.value * factor)} for factor in (2, 0.5)]
    if not any(found):
        return SuggestedHistory(None, f"{seen}; of {len(hours):,}, none would be found if doubled or halved")
    doubled, halved = (f"{100 * len(some) / len(hours):.0f} %" for some in found)
    return SuggestedHistory(
        history, f"{seen}; of {len(hours):,}, {doubled} would be found if doubled, {halved} if halved"
    )
