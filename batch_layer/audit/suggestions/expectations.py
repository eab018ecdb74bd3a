"""Suggests expectations on rows like those of past hours. Each of them passes in all of these hours.

A number is allowed to go half of the seen range beyond it, and the number of rows a quarter. What holds only in hours
with enough rows has a condition.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from batch_layer.audit.suggestions.groups import choose_grouping
from batch_layer.audit.suggestions.seen_rows import SeenColumn, SeenRows
from hourline_core.model import Expectation

_ROWS_OF_A_SHARE = 20
"""The minimum number of rows in an hour for a share of them to say something."""
_HOURS = 24
"""The minimum number of hours that a suggestion with a condition rests on."""
_ROWS_OF_A_VALUE = 20
"""The minimum number of rows per distinct value, for the values to be a set."""
_EXACT = 2.0**53
"""Greater whole numbers are not exact as doubles. They are ids or hashes rather than amounts."""
_DAYS = 5
"""The minimum number of days on which an hour of the day was seen."""


@dataclass(frozen=True)
class Suggested:
    """A suggested expectation, and what was seen, in words."""

    expectation: Expectation
    seen: str


def suggest_on_columns(
    seen: SeenRows, *, all_count: bool, keys: frozenset[str], shares: frozenset[str] = frozenset()
) -> Iterator[Suggested]:
    """Suggest expectations on the columns. ``all_count`` is false if the audit leaves out some of the rows, so that
    shares may differ. ``keys`` are columns whose values may be unique, and ``shares`` those that are never above 1.
    """
    for column in seen.columns:
        if not column.filled:
            continue
        yield from _suggest_on_nulls(seen, column, all_count)
        # An hour whose values are all null has nothing to evaluate, which is a failure.
        barren = [hour.rows for hour in column.hours.values() if not hour.filled]
        when = f"rows >= {1 + max(barren)}" if barren else None
        if barren and (not all_count or seen.hours_with(1 + max(barren)) < _HOURS):
            continue
        yield from _suggest_ranges(seen, column, when, 1.0 if column.name in shares else math.inf)
        yield from _suggest_set(seen, column, when)
        if all_count:
            yield from _suggest_completeness(seen, column)
        if column.name in keys:
            yield from _suggest_uniqueness(seen, column, when)


def suggest_on_row_count(seen: SeenRows) -> Iterator[Suggested]:
    """Suggest bounds of the number of rows in an hour; and at which hours of the day there must be some, unless there
    always are.
    """
    counts = list(seen.hours.values())
    least, most = min(counts), max(counts)
    margin = (most - least) / 4
    bounds = {"max_value": math.ceil(most + margin)}
    if least:
        bounds = {"min_value": max(1, math.floor(least - margin)), **bounds}
    yield _make_suggested("expect_table_row_count_to_be_between", bounds, f"{least:,} to {most:,} rows in an hour")
    if least:
        return
    of_day: dict[int, list[int]] = {}
    for hour, rows in seen.hours.items():
        of_day.setdefault(hour.hour, []).append(rows)
    filled = [hour for hour in range(24) if len(of_day.get(hour, [])) >= _DAYS and min(of_day[hour])]
    for _, run in groupby(enumerate(filled), key=lambda pair: pair[1] - pair[0]):
        hours = [hour for _, hour in run]
        lowest = min(min(of_day[hour]) for hour in hours)
        yield _make_suggested(
            "expect_table_row_count_to_be_between",
            {"min_value": max(1, lowest // 2)},
            f"at least {lowest:,} on each day",
            f"hour_of_day >= {hours[0]} and hour_of_day <= {hours[-1]}",
        )


def _suggest_on_nulls(seen: SeenRows, column: SeenColumn, all_count: bool) -> Iterator[Suggested]:
    kind, about = "expect_column_values_to_not_be_null", {"column": column.name}
    if column.filled == seen.rows:
        yield _make_suggested(kind, about, f"no null in {seen.rows:,} rows")
        return
    shares = [1 - hour.filled / hour.rows for hour in column.hours.values() if hour.rows >= _ROWS_OF_A_SHARE]
    if not all_count or len(shares) < _HOURS:
        return
    mostly = math.floor(100 * (1 - 1.5 * max(shares) - 0.02)) / 100
    if mostly > 0:
        told = f"at most {100 * max(shares):.1f} % null in an hour"
        yield _make_suggested(kind, {**about, "mostly": mostly}, told, f"rows >= {_ROWS_OF_A_SHARE}")


def _suggest_ranges(seen: SeenRows, column: SeenColumn, when: str | None, most: float) -> Iterator[Suggested]:
    """A range for each group if groups differ, and one for all rows if some are in no group."""
    if column.least is None or column.greatest is None or max(-column.least, column.greatest) > _EXACT:
        return
    grouping = choose_grouping(column.groupings)
    in_groups = grouping is not None and any(
        one.name == grouping.by and one.filled == seen.rows for one in seen.columns
    )
    if not in_groups:
        about = {"column": column.name}
        yield from _suggest_range(about, column.least, column.greatest, column.is_whole, when, most)
    if grouping is None:
        return
    for group in grouping.groups:
        # An hour without such rows fulfils it.
        about = {"column": column.name, "row_condition": group.condition(grouping.by)}
        yield from _suggest_range(about, group.least, group.greatest, column.is_whole, None, most)


def _suggest_range(
    about: Mapping[str, Any], seen_least: float, seen_greatest: float, whole: bool, when: str | None, most: float
) -> Iterator[Suggested]:
    """A range that is within what the column can be, 0 to ``most`` if ``most`` is finite."""
    margin = (seen_greatest - seen_least or abs(seen_greatest) or 1.0) / 2
    least = 0.0 if 0 <= seen_least < margin else seen_least - margin
    greatest = seen_greatest + margin
    bounds = {"min_value": _round(least, math.floor, whole)}
    if greatest < most:
        bounds["max_value"] = _round(greatest, math.ceil, whole)
    elif least <= 0:  # It can be nothing else.
        return
    told = f"{seen_least:,.6g} to {seen_greatest:,.6g}"
    yield _make_suggested("expect_column_values_to_be_between", {**about, **bounds}, told, when)


def _suggest_set(seen: SeenRows, column: SeenColumn, when: str | None) -> Iterator[Suggested]:
    if column.values and column.filled >= _ROWS_OF_A_VALUE * len(column.values):
        told = f"{len(column.values)} value(s) in {column.filled:,} rows"
        parameters = {"column": column.name, "value_set": list(column.values)}
        yield _make_suggested("expect_column_values_to_be_in_set", parameters, told, when)


def _suggest_completeness(seen: SeenRows, column: SeenColumn) -> Iterator[Suggested]:
    """The values that no full hour is without."""
    rows = seen.least_of_full
    hours = seen.hours_with(rows)
    if hours >= _HOURS and (always := [value for value, with_it in column.values.items() if with_it == hours]):
        parameters = {"column": column.name, "value_set": always}
        when = f"rows >= {rows}" if hours < seen.hours_with(1) else None
        told = f"in each of {hours:,} hours"
        yield _make_suggested("expect_column_distinct_values_to_contain_set", parameters, told, when)


def _suggest_uniqueness(seen: SeenRows, column: SeenColumn, when: str | None) -> Iterator[Suggested]:
    if column.is_unique and seen.usual >= _ROWS_OF_A_SHARE:
        told = f"no value twice in {column.filled:,} rows"
        yield _make_suggested("expect_column_values_to_be_unique", {"column": column.name}, told, when)


def _make_suggested(kind: str, parameters: Mapping[str, Any], seen: str, when: str | None = None) -> Suggested:
    return Suggested(Expectation(type=kind, parameters=dict(parameters), when=when), seen)


def _round(value: float, direction: Callable[[float], int], whole: bool) -> int | float:
    """``value`` with two digits, rounded in one direction; a ``whole`` number, if it is one or should be one."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0
    rounded = direction(round(value / unit, 6)) * unit
    return direction(round(rounded, 6)) if whole or rounded.is_integer() else float(f"{rounded:.12g}")
