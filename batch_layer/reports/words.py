"""Words the expectations and numbers of the reports."""

import json
from typing import Protocol

from batch_layer.reports.site import shorten
from batch_layer.reports.trends import QualityRow
from hourline_core.ledger.problems import counted

_COMPARED = {"expect_column_pair_values_to_be_equal": " = ", "expect_column_pair_values_a_to_be_greater_than_b": " ≥ "}
_OTHERS = {"audit": "the audit itself", "unknown": "no longer known"}


class Expected(Protocol):
    """What the words of an expectation are made of."""

    @property
    def expectation(self) -> str: ...
    @property
    def about(self) -> str | None: ...
    @property
    def parameters(self) -> str | None: ...
    @property
    def condition(self) -> str | None: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def origin(self) -> str: ...


def columns(of: Expected) -> str:
    """The columns. Two that are compared have the sign of the comparison between them."""
    return shorten((of.about or "").replace(", ", _COMPARED.get(of.expectation, ", ")))


def sentence(of: Expected) -> str:
    """``expect_column_mean_to_be_between`` becomes ``mean to be between``, and the user's parameters and condition.
    Facts have no words, since their columns say it all.
    """
    if of.expectation in _COMPARED or (of.origin != "user" and of.expectation == "expect_column_values_to_be_between"):
        return ""
    words = of.expectation.removeprefix("expect_").removeprefix("column_").replace("_", " ")
    unit = ", of windows" if of.unit == "window" else ""
    condition = f", when {of.condition}" if of.condition else ""
    return _OTHERS.get(words, shorten(f"{words}{_parameters(of)}{unit}{condition}"))


def _parameters(of: Expected) -> str:
    """The parameters that a user has given beside the columns."""
    if of.origin != "user":
        return ""
    given = json.loads(of.parameters or "{}").items()
    told = [
        f"{name.replace('_', ' ')} {_plain(value)}"
        for name, value in given
        if name not in ("column", "column_A", "column_B", "column_list")
    ]
    return f": {', '.join(told)}" if told else ""


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def bounds(lower: float | None, upper: float | None) -> str:
    """``1 to 10``, ``at least 1`` or ``at most 10``. Empty if there are none."""
    if lower is not None and upper is not None:
        return f"{number(lower)} to {number(upper)}"
    if lower is not None:
        return f"at least {number(lower)}"
    return f"at most {number(upper)}" if upper is not None else ""


def number(value: float) -> str:
    """A number in at most seven digits."""
    if abs(value) < 1e7 and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def observed(finding: QualityRow) -> str:
    """What was observed: the number, else the number of rows that failed, else what was found in words."""
    if finding.observed is not None:
        return number(finding.observed)
    if finding.found:
        return shorten(finding.found)
    return "" if finding.unexpected is None else counted(finding.unexpected, "failing row")
