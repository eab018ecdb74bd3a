"""Builds Great Expectations' objects from declared expectations. Raises an error for a wrong name or parameter."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from great_expectations.expectations import expectation as gx
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

from batch_layer.audit.bounds import UnfitBoundError, refuse_unfit_bounds
from batch_layer.audit.parameter_types import UnfitValueError, convert_parameters
from hourline_core.errors import did_you_mean
from hourline_core.model import Expectation, Severity
from hourline_core.model.base import QuotedText, as_plain_text, describe, quoted, wanted_without_quotes
from hourline_core.model.expectation import About, columns_of
from hourline_core.model.expressions import attempt

Origin = Literal["declaration", "user", "history"]

_BY_ROW = (gx.ColumnMapExpectation, gx.ColumnPairMapExpectation, gx.MulticolumnMapExpectation)
# Whether a row fulfils these depends on the other rows.
_OF_ALL_ROWS = {
    "expect_column_values_to_be_unique",
    "expect_compound_columns_to_be_unique",
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_decreasing",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_not_be_outliers",
}
# They need a SQL database or another table, or Hourline sets them itself.
_NOT_HERE = {
    "expect_query_results_to_match_comparison",
    "unexpected_rows_expectation",
    "expect_table_row_count_to_equal_other_table",
    "expect_column_values_to_match_like_pattern",
    "expect_column_values_to_match_like_pattern_list",
    "expect_column_values_to_not_match_like_pattern",
    "expect_column_values_to_not_match_like_pattern_list",
}
_SET_BY_HOURLINE = {
    *(
        "id",
        "meta",
        "notes",
        "description",
        "rendered_content",
        "windows",
        "batch_id",
        "severity",
        "result_format",
        "catch_exceptions",
    ),
    "library_metadata",
}
_BETWEEN = "expect_column_values_to_be_between"
_MAPPINGS = ("quantile_ranges", "partition_object", "json_schema")
_CALLED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(@)|(\w+)\s*\(""")
"""What a condition of pandas reads from elsewhere, or calls, outside of quoted text."""
_REPEATABLE_CALLS = {
    *("abs", "between", "contains", "endswith", "fullmatch", "isin", "isna", "isnull", "len", "lower", "match"),
    *("notna", "notnull", "startswith", "strip", "upper"),
}
"""What a condition of pandas may call."""
_OTHER_TYPE = ("value is not a valid", "value could not be parsed", "unexpected value")
"""How pydantic says that a value is of another type."""
_WORDS = {"and", "in", "not", "or"}
"""The words that a bracket may follow in it."""
_GX_SEVERITY = {"fail": FailureSeverity.CRITICAL, "warn": FailureSeverity.WARNING}


class UnsuitableExpectationError(ValueError):
    """An expectation that cannot be evaluated as declared. ``path`` is the place within it."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Check:
    """An expectation to evaluate, from a declaration, from history or from the user."""

    type: str
    parameters: Mapping[str, Any]
    severity: Severity = "fail"
    origin: Origin = "declaration"
    band: tuple[str, str, str] | None = None
    """The columns of the value and of its lower and upper bound, if the expectation compares these."""
    mistake: str = ""
    """Why it cannot be evaluated on these columns; empty if it can."""
    mistaken: tuple[str, ...] = ()
    """The parameter that the mistake is about, if it is about one."""
    when: str | None = None
    """The condition on the facts of an hour or window for it to apply. None: it always applies."""
    unit: About = "hour"
    """Whose rows it is evaluated on: those of an hour, or of a window."""
    of_sessions: bool = False
    """Whether it is evaluated on sessions, each of which is one row."""
    of_doubles: bool = False
    """Whether its column has doubles, which may be NaN."""
    of_events: bool = False
    """Whether it is evaluated on events, by Spark."""
    spark_condition: str | None = None
    """Its ``row_condition``, if that is Spark SQL over events."""

    @property
    def columns(self) -> list[str]:
        """The columns that it is about."""
        return columns_of(self.parameters)

    @property
    def by_row(self) -> bool:
        """Whether each row fulfils it on its own, so that many hours can be evaluated at once."""
        kind = _find_kind(self.type)
        # If the hour is among the columns, the rows of other hours do not matter.
        whole = self.type in _OF_ALL_ROWS and "hour" not in self.columns
        return issubclass(kind, _BY_ROW) and not whole and float(self.parameters.get("mostly", 1)) == 1

    @property
    def needs_values(self) -> bool:
        """Whether a null leaves nothing to evaluate: Great Expectations then reports it as fulfilled. A session is
        judged on its own, and may have no value.
        """
        of_all = bool(self.columns) and not self.of_sessions
        return of_all and "null" not in self.type and "row_condition" not in self.parameters

    def build(self, meta: Mapping[str, Any]) -> gx.Expectation:
        """Great Expectations' object. Raises UnsuitableExpectationError."""
        kind = _find_kind(self.type)
        allowed = [name for name in kind.__fields__ if name not in _SET_BY_HOURLINE]
        for name in self.parameters:
            if name not in allowed:
                raise UnsuitableExpectationError(
                    f"{self.type} has no parameter '{name}'{did_you_mean(name, allowed)}", name
                )
        self._refuse_empty(allowed)
        self._refuse_quotes({name: field.outer_type_ for name, field in kind.__fields__.items()})
        # For Spark, NaN is above every lower bound.
        bounds = {"max_value": math.inf} if self.of_doubles and self.type == _BETWEEN else {}
        try:
            attempted = {"row_condition": attempt(self.spark_condition)} if self.spark_condition else {}
            parameters = {**bounds, **as_plain_text(self.parameters), **attempted}
            built = kind(**parameters, severity=_GX_SEVERITY[self.severity], meta=dict(meta))
        except ValueError as error:
            types = {name: field.outer_type_ for name, field in kind.__fields__.items()}
            raise UnsuitableExpectationError(*_explain(self.type, error, self.parameters, types)) from None
        if self.of_sessions and not self.by_row:
            raise UnsuitableExpectationError(
                f"{self.type} compares rows, and a session is one row: allowed are expectations on each row, such as "
                "expect_column_values_to_be_between without mostly"
            )
        return built

    def _refuse_empty(self, allowed: list[str]) -> None:
        """Refuse parameters that Great Expectations accepts, and then reports as fulfilled or broken whatever the
        rows are.
        """
        if self.mistake:
            raise UnsuitableExpectationError(f"{self.type}: {self.mistake}", *self.mistaken)
        self._refuse_unrepeatable()
        for name, value in self.parameters.items():
            # Great Expectations would take it for the name of a runtime parameter.
            if isinstance(value, dict) and name not in _MAPPINGS:
                raise UnsuitableExpectationError(f"{self.type}: {name}: got a mapping, allowed is a value", name)
            if name.endswith("_set") and value == []:
                raise UnsuitableExpectationError(
                    f"{self.type}: {name}: got nothing, allowed is at least one value", name
                )
        if {"min_value", "max_value"} <= set(allowed) - self.parameters.keys() and "threshold" not in allowed:
            raise UnsuitableExpectationError(f"{self.type}: got no bounds, allowed are min_value, max_value or both")

    def _refuse_quotes(self, types: Mapping[str, Any]) -> None:
        """Refuse text for a number or a boolean. Great Expectations would read it. Bounds have been checked."""
        for name, value in self.parameters.items():
            allowed = wanted_without_quotes(types[name])
            if isinstance(value, QuotedText) and allowed and name not in ("min_value", "max_value"):
                raise UnsuitableExpectationError(f"{self.type}: {name}: {quoted(value, allowed)}", name)

    def _refuse_unrepeatable(self) -> None:
        """Refuse what may give another verdict each time. Of Spark SQL, ``compute/check.py`` does."""
        condition = self.parameters.get("row_condition")
        if self.of_events or not isinstance(condition, str):
            return
        if str(self.parameters.get("condition_parser", "")).startswith("great_expectations"):
            return
        for elsewhere, called in _CALLED.findall(condition):
            if elsewhere or (called and called not in _REPEATABLE_CALLS | _WORDS):
                raise UnsuitableExpectationError(
                    f"{self.type}: row_condition: got '{elsewhere or called}', which is not known to give the same "
                    "value each time; allowed are comparisons of columns, and the functions "
                    f"{', '.join(sorted(_REPEATABLE_CALLS))}",
                    "row_condition",
                )


def unique_with(check: Check, hour: str) -> Check | None:
    """The expectation that the columns of ``check`` are unique together with the column ``hour``. None: ``check`` does
    not say that its columns are unique, or says more.
    """
    if check.parameters.keys() == {"column"} and check.type == "expect_column_values_to_be_unique":
        skip_nulls = {"ignore_row_if": "any_value_is_missing"}
    elif check.parameters.keys() == {"column_list"} and check.type == "expect_compound_columns_to_be_unique":
        skip_nulls = {}
    else:
        return None
    columns = {"column_list": [hour, *check.columns], **skip_nulls}
    return Check("expect_compound_columns_to_be_unique", columns, check.severity, check.origin)


def build_checks(
    declared: Iterable[Expectation],
    types: Mapping[str, str] | None = None,
    *,
    of_sessions: bool = False,
    of_events: bool = False,
) -> list[Check]:
    """The expectations that a user has declared. ``types`` are those of the columns, if they are known.
    ``of_sessions``: those about windows are about sessions. ``of_events``: they are about events, and Spark evaluates
    them.
    """
    checks = []
    for one in declared:
        parameters, mistake = one.parameters, ""
        mistaken: tuple[str, ...] = ()
        try:
            parameters = convert_parameters(parameters, types or {})
            refuse_unfit_bounds(one.type, parameters, types or {})
        except (UnfitValueError, UnfitBoundError) as error:
            mistake, mistaken = str(error), (error.name,)
        checks.append(
            Check(
                one.type,
                parameters,
                one.severity,
                "user",
                mistake=mistake,
                mistaken=mistaken,
                when=one.when,
                unit=one.about,
                of_sessions=of_sessions and one.about == "window",
                of_doubles=(types or {}).get(str(one.parameters.get("column"))) in ("float", "double"),
                of_events=of_events,
                spark_condition=one.spark_condition if of_events else None,
            )
        )
    return checks


@cache
def _find_kind(name: str) -> type[gx.Expectation]:
    known = set(list_registered_expectation_implementations()) - _NOT_HERE
    if name in _NOT_HERE:
        raise UnsuitableExpectationError(f"{name} needs an SQL database or another table, which an audit does not have")
    if name not in known:
        raise UnsuitableExpectationError(f"Great Expectations has no '{name}'{_suggest_name(name, known)}")
    return get_expectation_impl(name)


def _suggest_name(name: str, known: set[str]) -> str:
    hint = did_you_mean(name, known)
    return hint if hint.startswith(" —") else "; all are listed at https://greatexpectations.io/expectations"


def _explain(name: str, error: ValueError, parameters: Mapping[str, Any], types: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence, and which of ``parameters`` it is about. Great Expectations checks them by pydantic, which reports a
    mistake once for each allowed type.
    """
    details: list[Mapping[str, Any]] = error.errors() if hasattr(error, "errors") else []
    if not details:
        return (f"{name}: {error}",)
    place = str(details[0]["loc"][0])
    told = {detail["msg"] for detail in details if str(detail["loc"][0]) == place}
    if place == "__root__":
        return (f"{name}: {'; '.join(sorted(told))}",)
    if place not in parameters:
        return (f"{name}: {place}: {'; '.join(sorted(told))}", place)
    got = f"got {describe(parameters[place])}"
    allowed = _allowed(types[place])
    if allowed and all(words.startswith(_OTHER_TYPE) for words in told):
        return (f"{name}: {place}: {got}, allowed is {allowed}", place)
    return (f"{name}: {place}: {got}: {'; '.join(sorted(told))}", place)


def _parts_of(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind):
        yield from _parts_of(part)


def _allowed(kind: Any) -> str | None:
    """What a parameter of the type ``kind`` may be, in words. None: pydantic says it."""
    parts = list(_parts_of(kind))
    if words := [str(word) for part in parts if get_origin(part) is Literal for word in get_args(part)]:
        return " or ".join(words)
    if any(list in (part, get_origin(part)) or get_origin(part) is Sequence for part in parts):
        return "a list, such as [a, b]"
    return wanted_without_quotes(kind)
