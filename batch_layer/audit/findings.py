"""The findings of one hour, read from Great Expectations' results."""

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from great_expectations.core import ExpectationValidationResult

from batch_layer.audit.declared_expectations import Check
from hourline_core.model.value_text import value_text

ROWS_KEPT = 20
"""The maximum number of failing rows that are kept of an expectation and hour, for the reports."""

_LONGEST = 200
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


@dataclass(frozen=True)
class Finding:
    """The result of one expectation in one hour."""

    hour: str
    check: Check
    success: bool
    found: str = ""
    """The result in words; empty if there is nothing to say."""
    observed: float | None = None
    lower: float | None = None
    upper: float | None = None
    unexpected: int | None = None
    """The number of failing rows. None: the expectation is not about rows."""
    rows: list[str] = field(default_factory=list)
    """Some of the failing rows with their keys, as JSON."""
    applied: bool = True
    """Whether the condition of the expectation holds for the hour. If not, it was not evaluated, and blocks nothing."""

    @property
    def blocks(self) -> bool:
        """Whether the hour must not be published because of it."""
        return not self.success and self.check.severity == "fail"


def note_not_applied(check: Check, hour: str, facts: Mapping[str, int]) -> Finding:
    """The finding of an hour with ``facts`` for which the condition of ``check`` does not hold."""
    words = ", ".join(f"{name} = {value:,}" for name, value in facts.items() if name in (check.when or ""))
    return Finding(hour, check, True, f"not applied: {words}, and it applies when {check.when}", applied=False)


def find_by_hour(
    check: Check,
    result: ExpectationValidationResult,
    hours: Sequence[str],
    frame: pd.DataFrame,
    by: str,
    facts: Mapping[str, Mapping[Hashable, Any]],
) -> list[Finding]:
    """Split a result over all hours into one finding for each hour, which the column ``by`` of ``frame`` names."""
    if broken := find_exception(result):
        return [Finding(hour, check, False, f"it cannot be evaluated: {broken}") for hour in hours]
    failing: dict[str, list[Mapping[str, Any]]] = {}
    for row in result.result.get("unexpected_index_list") or []:
        failing.setdefault(row[by], []).append(row)
    strays = [row for hour, rows in failing.items() if hour not in hours for row in rows]
    if strays or (not result.success and not failing):
        return [
            Finding(hour, check, False, "rows of other hours", unexpected=len(strays), rows=_dump(strays))
            for hour in hours
        ]
    sizes = frame[by].value_counts().to_dict()
    findings = []
    for hour in [hour for hour in hours if hour in sizes]:
        rows = failing.get(hour, [])
        observed, lower, upper = (
            (_find_number(facts[hour][column]) for column in check.band) if check.band else (None, None, None)
        )
        words = f"{len(rows):,} of {sizes[hour]:,} rows" if rows else ""
        if rows and sizes[hour] == 1:  # a fact: its values say more
            words = ", ".join(f"{name}: {_shorten(value_text(rows[0].get(name)))}" for name in check.columns)
        if rows and observed is not None:
            words = f"{observed:,.6g}, where {_describe_bounds(check, lower, upper)}"
        findings.append(Finding(hour, check, not rows, words, observed, lower, upper, len(rows), _dump(rows)))
    return findings


def _describe_bounds(check: Check, lower: float | None, upper: float | None) -> str:
    if check.origin == "history":
        return f"past days say {lower:,.6g} to {upper:,.6g}"
    if lower is None or upper is None:
        return f"at most {upper:,.6g} is declared" if lower is None else f"at least {lower:,.6g} is declared"
    return f"{lower:,.6g} to {upper:,.6g} is declared"


def find_in_hour(check: Check, result: ExpectationValidationResult, hour: str) -> Finding:
    """The finding of a result over the rows of one hour."""
    if broken := find_exception(result):
        return Finding(hour, check, False, f"it cannot be evaluated: {broken}")
    details: Mapping[str, Any] = result.result
    unexpected = details.get("unexpected_count")
    value = details.get("observed_value")
    words = f"found {_shorten(value)}" if value is not None else ""
    if not result.success and "element_count" in details:
        words = f"{unexpected:,} of {details['element_count']:,} rows"
    for name in ("missing", "unexpected"):
        if (
            not result.success
            and value is None
            and "element_count" not in details
            and (listed := details.get(f"partial_{name}_list"))
        ):
            words = f"{name}: {_shorten(', '.join(sorted(map(value_text, listed))))}"
    rows = details.get("unexpected_index_list") or details.get("partial_unexpected_index_list") or []
    lower, upper = (_find_number(check.parameters.get(name)) for name in ("min_value", "max_value"))
    return Finding(hour, check, bool(result.success), words, _find_number(value), lower, upper, unexpected, _dump(rows))


def find_exception(result: ExpectationValidationResult) -> str:
    """The exception that was raised during the evaluation. Great Expectations reports it in two forms."""
    info = result.exception_info or {}
    for one in (info, *(value for value in info.values() if isinstance(value, dict))):
        if one.get("raised_exception"):
            return " ".join(str(one.get("exception_message") or "it raised an exception").split())[:_LONGEST]
    return ""


def _dump(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Some of ``rows``. The hour comes first, as in every table."""
    ordered = [sorted(row.items(), key=lambda cell: cell[0] != "hour") for row in rows[:ROWS_KEPT]]
    return [json.dumps({str(name): _make_plain(value) for name, value in row}, ensure_ascii=False) for row in ordered]


def _make_plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | int):
        return value
    if hasattr(value, "item") and not isinstance(value, str):
        return _make_plain(value.item())
    return _shorten(value)


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _find_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
