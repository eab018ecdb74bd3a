"""The expectations that follow from the declarations, and those from history. Nobody has to write them.

Most of them compare columns of one frame of facts, with one row per hour: a count of the events beside the same count
of the tiles.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.facts import ArchivedCounts
from batch_layer.audit.history_bounds import Known, compute_bounds, is_number
from batch_layer.hour_totals import HourTotals, LookedUpCounts, doubles, without_sketches
from hourline_core.aggregates import TOLERANCE, aggregate_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model import Metric, Source
from hourline_core.model.hours import hour_text

NO_LOOKUPS: Mapping[str, LookedUpCounts] = {}
"""Of a source without lookups, or an hour without events."""
NONE_FORGOTTEN: Mapping[str, Mapping[datetime, int]] = {}
"""Where all versions of lookups are kept that events need."""


@dataclass(frozen=True)
class Facts:
    """A frame with one row per hour (``hour`` as text), and the expectations that compare its columns. Or the results
    of some hours, and the expectations on each row.
    """

    frame: pd.DataFrame
    checks: list[Check]


def compare_source(
    source: Source,
    archived: ArchivedCounts,
    in_progress: Mapping[datetime, int],
    hours: Sequence[datetime],
    looked_up: Mapping[str, LookedUpCounts] = NO_LOOKUPS,
) -> Facts:
    """The archive compared with progress, and the events with their declaration. ``looked_up`` is what they met in
    lookups, which is told and always fulfilled.
    """
    required = source.required_fields
    frame = pd.DataFrame(
        {
            "hour": [hour_text(hour) for hour in hours],
            "events in the archive": [archived.events.get(hour, 0) for hour in hours],
            "events in progress": [in_progress.get(hour, 0) for hour in hours],
            "events outside their hour": [archived.strays.get(hour, 0) for hour in hours],
            **{f"events without {name}": [archived.without[name].get(hour, 0) for hour in hours] for name in required},
        }
    )
    checks = [_expect_equal("events in the archive", "events in progress"), _expect_zero("events outside their hour")]
    if archived.decoded is not None:
        # Each of them is kept, has moved to another hour, or is no event any more.
        frame["events of other declarations"] = [archived.decoded.others.get(hour, 0) for hour in hours]
        frame["events decoded anew"] = [archived.decoded.accounted[hour] for hour in hours]
        checks.append(_expect_equal("events of other declarations", "events decoded anew"))
        frame["events that are rejected now"] = [archived.decoded.dropped[hour] for hour in hours]
        none = _expect_zero("events that are rejected now")
        checks.append(Check(none.type, none.parameters, "warn"))
    checks += [_expect_zero(f"events without {name}") for name in required]
    for name, counts in looked_up.items():
        frame["no events"] = [0] * len(hours)
        frame["all events in the archive"] = [archived.all_events(hour) for hour in hours]
        for words, numbers in (
            (f"events without a row in {name}", counts.no_row),
            (f"events with a null key for {name}", counts.null_keys),
        ):
            frame[words] = [numbers.get(hour, 0) for hour in hours]
            one = _expect_at_least("all events in the archive", words)
            # By its band, the number is told, and not only whether it fits.
            checks.append(Check(one.type, one.parameters, band=(words, "no events", "all events in the archive")))
    return Facts(frame, checks)


def compare_metric(
    aggregation: AggregationPlan,
    totals: HourTotals,
    archived: ArchivedCounts,
    of_tiles: Known,
    of_events: Known,
    rows: Mapping[datetime, tuple[int, int]],
    hours: Sequence[datetime],
    known: Known,
    events: Mapping[datetime, int],
    stored: pa.Schema,
    forgotten: Mapping[str, Mapping[datetime, int]] = NONE_FORGOTTEN,
) -> Facts:
    """The tiles compared with the events, the archive, the declaration and history.

    ``archived`` is counted by DuckDB, ``totals`` by Arrow in the tasks. ``rows`` gives the number of rows and of groups
    in the tiles of each hour. ``known`` has the values of published hours, ``events`` the numbers of events of the
    source's hours, and ``stored`` the columns of the staged table. ``forgotten`` gives the numbers of events whose
    version is no longer kept, by lookup.
    """
    metric, source = aggregation.metric, aggregation.source
    counted = [totals.of_metric.get(hour, 0) for hour in hours]
    columns: dict[str, list[Any]] = {
        "hour": [hour_text(hour) for hour in hours],
        "events read": [totals.read.get(hour, 0) for hour in hours],
        "events to read": [archived.all_events(hour) for hour in hours],
        "events that count": [totals.counted.get(hour, 0) for hour in hours],
        "events of the metric": counted,
        "events of the metric, with those in quarantine": [
            count + totals.quarantined.get(hour, 0) for hour, count in zip(hours, counted, strict=True)
        ],
        **{f"events read without {name}": [of.get(hour, 0) for hour in hours] for name, of in totals.without.items()},
        "number of rows": [rows.get(hour, (0, 0))[0] for hour in hours],
        "number of groups": [rows.get(hour, (0, 0))[1] for hour in hours],
        # No events give no rows; some events give at least one row.
        "rows at least": [min(count, 1) for count in counted],
        "rows at most": counted,
        "columns": [_describe_columns(stored)] * len(hours),
        "declared columns": [_describe_columns(aggregation.schema)] * len(hours),
    }
    checks = [
        _expect_equal("events read", "events to read"),
        # The source's id and ``where`` leave events out, then the metric's ``where``. Without these, all of them count.
        (_expect_at_least if source.id or source.where else _expect_equal)("events read", "events that count"),
        # An event is in the metric or in its quarantine.
        (_expect_at_least if metric.where else _expect_equal)(
            "events that count", "events of the metric, with those in quarantine"
        ),
        *(_expect_zero(f"events read without {name}") for name in totals.without),
        _expect_equal("columns", "declared columns"),
        _expect_equal("number of rows", "number of groups"),
        _expect_at_least("number of rows", "rows at least"),
        _expect_at_least("rows at most", "number of rows"),
    ]
    checks += _expect_first_of_ids(columns, source, totals, hours)
    for lookup, numbers in forgotten.items():
        words = f"events whose version of {lookup} is no longer kept (`keep` in lookups/{lookup}.yaml)"
        columns[words] = [numbers.get(hour, 0) for hour in hours]
        checks.append(_expect_zero(words))
    for name in without_sketches(metric).measures:
        pairs = [(of_tiles.get(hour, {}).get(name), of_events.get(hour, {}).get(name)) for hour in hours]
        if name in doubles(aggregation):
            sizes = [totals.sizes.get((hour, name), 0.0) for hour in hours]
            columns[deviation_of(name)] = [
                measure_deviation(*pair, size) for pair, size in zip(pairs, sizes, strict=True)
            ]
            checks.append(
                Check("expect_column_values_to_be_between", {"column": deviation_of(name), "max_value": TOLERANCE})
            )
        else:
            columns[f"{name} of the tiles"] = [None if mine is None else str(mine) for mine, _ in pairs]
            columns[f"{name} of the events"] = [None if theirs is None else str(theirs) for _, theirs in pairs]
            checks.append(_expect_equal(f"{name} of the tiles", f"{name} of the events"))
    checks += expect_like_past_days(columns, metric, of_tiles, hours, known, events)
    return Facts(pd.DataFrame(columns), checks)


def _expect_first_of_ids(
    columns: dict[str, list[Any]], source: Source, totals: HourTotals, hours: Sequence[datetime]
) -> list[Check]:
    """Of each id in an hour, the first event counts and no other. The numbers are added to ``columns``."""
    if totals.ids is None:
        return []
    first, ids, repeated, later = (
        [of.get(hour, 0) for hour in hours]
        for of in (totals.ids.first, totals.ids.ids, totals.ids.repeated, totals.ids.later)
    )
    columns |= {
        "first events of an id": first,
        "ids, and events without one": ids,
        "repeated events": repeated,
        "events after the first of their id": later,
        "first and repeated events": [sum(both) for both in zip(first, repeated, strict=True)],
    }
    return [
        _expect_equal("first events of an id", "ids, and events without one"),
        _expect_equal("repeated events", "events after the first of their id"),
        _expect_equal("first and repeated events", "events read"),
        (_expect_at_least if source.where else _expect_equal)("first events of an id", "events that count"),
    ]


def compare_with_history(
    metric: Metric, of_hours: Known, hours: Sequence[datetime], known: Known, events: Mapping[datetime, int]
) -> Facts:
    """The values of ``of_hours`` compared with history alone, as ``expect_like_past_days`` does."""
    columns: dict[str, list[Any]] = {"hour": [hour_text(hour) for hour in hours]}
    checks = expect_like_past_days(columns, metric, of_hours, hours, known, events)
    return Facts(pd.DataFrame(columns), checks)


def expect_like_past_days(
    columns: dict[str, list[Any]],
    metric: Metric,
    of_hours: Known,
    hours: Sequence[datetime],
    known: Known,
    events: Mapping[datetime, int],
) -> list[Check]:
    """The comparisons of the values of ``of_hours`` with those of the same hour of past days, which are in ``known``.
    The values and their bounds are added to ``columns``. ``events`` are the numbers of events of the source's hours.
    """
    checks: list[Check] = []
    if metric.history.severity == "off":
        return checks
    for name, measure in metric.measures.items():
        values = [of_hours.get(hour, {}).get(name) for hour in hours]
        if not any(is_number(value) for value in values):
            continue
        adds_up = aggregate_of(measure).starts_at_zero
        limits = [compute_bounds(known, events, hour, name, metric.history, adds_up) or (None, None) for hour in hours]
        if all(low is None for low, _ in limits):
            continue  # still learning, or few rows
        band = (f"{name} of the hour", f"{name} at least", f"{name} at most")
        for column, column_values in zip(band, (values, *zip(*limits, strict=True)), strict=True):
            columns[column] = [None if value is None else float(value) for value in column_values]
        # Null where nothing is known, and null is passed over.
        beyond = f"{name} beyond past days"
        columns[beyond] = [
            measure_distance_beyond(*facts) for facts in zip(*(columns[column] for column in band), strict=True)
        ]
        one = _expect_zero(beyond)
        checks.append(Check(one.type, one.parameters, metric.history.severity, "history", band))
    return checks


def expect_of_rows(aggregation: AggregationPlan, hours: Sequence[datetime]) -> list[Check]:
    """The expectations on each row of the results: its hour was recomputed, and what is never null is not null."""
    metric = aggregation.metric
    never_null = [name for name, measure in metric.measures.items() if aggregate_of(measure).is_never_null]
    return [
        Check(
            "expect_column_values_to_be_in_set", {"column": "hour", "value_set": [hour_text(hour) for hour in hours]}
        ),
        *(Check("expect_column_values_to_not_be_null", {"column": name}) for name in ["hour", *never_null]),
    ]


def _describe_columns(schema: pa.Schema) -> str:
    """The names and types of columns, in one order for all tables."""
    return ", ".join(sorted(f"{column.name} {column.type}" for column in schema))


def _expect_equal(one: str, other: str) -> Check:
    # Without the last expectation, a null on either side would pass.
    return Check(
        "expect_column_pair_values_to_be_equal",
        {"column_A": one, "column_B": other, "ignore_row_if": "both_values_are_missing"},
    )


def _expect_at_least(greater: str, less: str) -> Check:
    parameters = {"column_A": greater, "column_B": less, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
    return Check("expect_column_pair_values_a_to_be_greater_than_b", parameters)


def _expect_zero(column: str) -> Check:
    return Check("expect_column_values_to_be_between", {"column": column, "min_value": 0, "max_value": 0})


def deviation_of(measure: str) -> str:
    """The column of facts with what ``measure_deviation`` gives of a measure."""
    return f"{measure} off by"


def measure_distance_beyond(value: float | None, lower: float | None, upper: float | None) -> float | None:
    """How far a value lies outside the bounds: negative below the lower one, zero within."""
    if value is None or lower is None or upper is None:
        return None
    if math.isnan(value):
        return 0.0 if math.isnan(lower) else math.inf
    return min(value - lower, 0.0) or max(value - upper, 0.0)


def measure_deviation(mine: Any, theirs: Any, size: float) -> float:
    """The difference relative to what was added up. It is infinite if one side has a value and the other has none, NaN
    or another infinity.
    """
    if mine is None or theirs is None:
        return 0.0 if mine is theirs else math.inf
    one, other = float(mine), float(theirs)
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0 if one == other or (math.isnan(one) and math.isnan(other)) else math.inf
    largest = max(abs(one), abs(other), size if math.isfinite(size) else 0.0)
    return abs(one - other) / largest if largest else 0.0
