"""Conditions on a source's events or a metric's results that an hour must fulfil before it is published.

Names and parameters are those of Great Expectations.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import AfterValidator, BeforeValidator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.condition import Condition

Severity = Literal["fail", "warn"]
About = Literal["hour", "window"]

_BESIDE = ("severity", "about", "when", "owner", "description", "link")
"""The keys that may stand beside the expectation in its YAML form."""
_COLUMNS = ("column", "column_A", "column_B", "column_list")
_FORM = f"`expect_…: {{parameter: value, …}}`, and beside it {', '.join(_BESIDE[:-1])} and {_BESIDE[-1]}"


def _link(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or re.search(r"\s", text):
        raise refuse(f"got {describe(text)}, allowed is a URL, such as https://example.com/rules/fares")
    return text


Link = Annotated[str, AfterValidator(_link)]
"""The URL of a web page."""


def columns_of(parameters: Mapping[str, Any]) -> list[str]:
    """The columns that an expectation with these parameters is about."""
    columns: list[str] = []
    for name in _COLUMNS:
        value = parameters.get(name, [])
        columns += value if isinstance(value, list) else [str(value)]
    return columns


def rename_columns(parameters: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """``parameters`` with these ``names`` of columns, in the order of ``columns_of``."""
    left, renamed = iter(names), dict(parameters)
    for name in _COLUMNS:
        if name in renamed:
            value = renamed[name]
            renamed[name] = [next(left) for _ in value] if isinstance(value, list) else next(left)
    return renamed


class Expectation(Declaration):
    """One expectation on an hour's events or results: `expect_…: {parameter: value, …}`.

    The other keys stand beside it. Add `severity: warn` if it must not block. `hourline check` checks the name and the
    parameters.
    """

    type: str
    """Its name in Great Expectations, such as `expect_column_values_to_be_between`."""

    parameters: dict[str, Any] = pydantic.Field(default={})
    """Its parameters, by their names in Great Expectations."""

    severity: Severity = "fail"
    """The consequence for an hour that does not fulfil it. `fail`: the hour is blocked. `warn`: the hour is published,
    and the reports show the warning.
    """

    about: About = "hour"
    """What it checks. `hour`: the results of an hour. `window`: the results of a window of the metric, which have
    `window_start` and `window_end` instead of `hour`. It is evaluated by the recompute that completes the window, so
    that all its hours are published, and by each later recompute of its hours. If the window does not fulfil it, the
    consequence applies to the window's hours in this recompute.

    Sessions are checked one by one, once the hours in which an event could join a session are closed. So the
    expectation must check single rows, and has no `mostly` and no `when`.
    """

    when: Condition | None = None
    """The condition for the hours or windows in which it is evaluated, such as `rows >= 20`. In others it is not
    evaluated, and the reports show this. A condition compares `rows` (the number of events or results) or `hour_of_day`
    (of the start, UTC, 0 to 23) with a whole number by `>=`, `<=`, `>`, `<`, `=` or `!=`. Several are joined by `and`.
    """

    owner: str | None = None
    """The person or team that is responsible for it. The reports show it."""

    description: str | None = None
    """Why it is expected, and what to do about a failure. The reports show it."""

    link: Link | None = None
    """The URL of a page that says more. The reports show it."""

    @property
    def spark_condition(self) -> str | None:
        """The `row_condition`, as far as it is Spark SQL if the expectation is about events. None: it has none."""
        condition = self.parameters.get("row_condition")
        own_syntax = str(self.parameters.get("condition_parser", "")).startswith("great_expectations")
        return condition if isinstance(condition, str) and not own_syntax else None

    @property
    def consequences(self) -> dict[str, Any]:
        """What decides whether an hour passes: all of it but the words for people."""
        usual = {*({"when"} if self.when is None else ()), *({"about"} if self.about == "hour" else ())}
        return self.model_dump(exclude={"owner", "description", "link", *usual})

    @classmethod
    def from_yaml_form(cls, value: Any) -> Any:
        """Read the YAML form, ``{expect_…: {parameter: value}, severity: warn}``. An Expectation is passed on."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise refuse(f"got {describe(value)}, allowed is a mapping, {_FORM}")
        types = [key for key in value if key not in _BESIDE]
        if len(types) != 1:
            names = ", ".join(types) or "none"
            raise refuse(f"got {len(types)} expectations in one item of the list ({names}), allowed is one, {_FORM}")
        parameters = value[types[0]]
        if parameters is not None and not isinstance(parameters, dict):
            raise refuse(
                f"got {describe(parameters)}, allowed is a mapping with its parameters, such as {{column: …}}", types[0]
            )
        beside = {key: value[key] for key in _BESIDE if value.get(key) is not None}
        return {"type": types[0], "parameters": parameters or {}, **beside}


ExpectationForm = Annotated[
    Expectation, BeforeValidator(Expectation.from_yaml_form, json_schema_input_type=dict[str, Any])
]
"""An expectation in its YAML form."""


def refuse_windows(expectations: Sequence[Expectation], because: str) -> None:
    """Raise a refusal of the first of ``expectations`` that is about windows."""
    for place, one in enumerate(expectations):
        if one.about == "window":
            raise refuse(f"got '{one.about}', allowed is hour: {because}", "expectations", str(place), "about")


def refuse_conditions(expectations: Sequence[Expectation]) -> None:
    """Raise a refusal of the first of ``expectations`` about sessions that has a condition."""
    for place, one in enumerate(expectations):
        if one.about == "window" and one.when is not None:
            raise refuse(
                f"got {describe(one.when)}, allowed is no condition, since each session is checked on its own: "
                "remove it, or choose sessions by the parameter row_condition",
                *("expectations", str(place), "when"),
            )


class History(Declaration):
    """The comparison of an hour's results with the same hour (UTC) of past days.

    `history: fail` is short for `history: {severity: fail}`.

    The square roots of values are compared. The bounds are the median of those days ± `width` times their spread. The
    spread is the median absolute deviation, scaled to a standard deviation (Leys et al., "Detecting outliers", 2013).
    Once three days of the same weekday are known, an hour also passes if it is that near to their median.

    The distance is at least a tenth of the median, and at least the random variation of a count of that size. It is
    doubled for means, minima and maxima. If the usual hour has fewer than 10 rows, nothing is compared.
    """

    severity: Literal["fail", "warn", "off"] = "warn"
    """The consequence for an hour outside the bounds. `fail`: the hour is blocked. `warn`: the hour is published, and
    the reports show the warning. `off`: nothing is compared.
    """

    days: Annotated[int, pydantic.Field(ge=1, le=366)] = 28
    """The number of past days to compare with."""

    learning: Annotated[int, pydantic.Field(ge=2, le=366)] = 21
    """The minimum number of these days that must have results. With fewer, nothing is compared. If there are fewer
    `days`, all of them must have results.
    """

    width: Annotated[float, pydantic.Field(gt=0)] = 5.0
    """The distance of the bounds from the median, in units of the spread of the square roots."""

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``history: fail`` stands for ``history: {severity: fail}``."""
        return {"severity": value} if isinstance(value, str) else value


HistoryForm = Annotated[
    History, BeforeValidator(History.from_short_form, json_schema_input_type=Literal["fail", "warn", "off"] | History)
]
"""A comparison with history in its long or short form."""
