"""Adds up the events of a metric by hour alone, by Arrow.

DuckDB folds and merges the tiles. Nothing of that is used here, so a fault in the SQL of a fold or a merge is a
difference, which the audit finds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.model import MeasureKind
from hourline_core.model.scratch_columns import HOUR, SCRATCH_PREFIX

_VARIANCES: tuple[MeasureKind, ...] = ("variance", "stddev", "var_pop", "stddev_pop")
_WAYS: Mapping[MeasureKind, Sequence[str]] = {
    "count": ("sum",),
    "sum": ("sum",),
    "mean": ("count", "sum"),
    "min": ("min",),
    "max": ("max",),
    "any": ("any",),
    "every": ("all",),
    **dict.fromkeys(_VARIANCES, ("count", "mean", "variance")),
}
"""By kind of measure, Arrow's aggregate over events for each state. That of M2 is its quotient with the number."""
_FIRST_LAST: tuple[MeasureKind, ...] = ("first", "last")
"""Their states are structs, whose fields but the value are the order of the events. The first field is their time."""
_IS_NAN, _ROW = f"{SCRATCH_PREFIX}is_nan_", f"{SCRATCH_PREFIX}row"


def add_up_events(metric: ProjectedMetric, events: pa.Table) -> pa.Table:
    """The states of ``metric`` by hour, of ``events``, of which all count."""
    measures = metric.aggregation.metric.measures
    columns = {HOUR: events[HOUR]}
    for name, measure in measures.items():
        if measure.kind == "count":
            counts = events[metric.values[name][0]] if metric.values[name] else pa.repeat(True, events.num_rows)
            columns[name] = pc.fill_null(counts, False).cast(pa.int64())
        else:
            columns[name] = events[metric.values[name][0]]
    ways = [(name, way) for name, measure in measures.items() for way in _WAYS.get(measure.kind, ())]
    added = _group(pa.table(columns), ways)
    states = {"hour": added[HOUR]}
    for name, measure in measures.items():
        if measure.kind in _FIRST_LAST:
            states[name] = _choose_events(columns[HOUR], columns[name], added[HOUR], measure.kind)
            continue
        found = [added[f"{name}_{way}"] for way in _WAYS[measure.kind]]
        if measure.kind in _VARIANCES:
            found[2] = pc.multiply(found[2], found[0].cast(pa.float64()))
        states |= zip(aggregate_of(measure).columns(name), found, strict=True)
    return pa.table(states).cast(metric.aggregation.schema)


def add_up_states(metric: ProjectedMetric, parts: Sequence[pa.Table]) -> pa.Table:
    """The states by hour of all events. Each of ``parts`` has those of some."""
    schema = metric.aggregation.schema
    rows = pa.concat_tables([schema.empty_table(), *parts]).rename_columns([HOUR, *schema.names[1:]])
    ways, means = [], {}
    for name, measure in metric.aggregation.metric.measures.items():
        columns = aggregate_of(measure).columns(name)
        if measure.kind in _VARIANCES:
            n, mean, m2 = columns
            means[mean] = n
            rows = _with_deviations(rows, n, mean, m2)
        # Numbers of events, and sums, are added.
        if measure.kind not in _FIRST_LAST:
            ways += [(column, "sum" if len(columns) > 1 else _WAYS[measure.kind][0]) for column in columns]
    added = _group(rows, ways)
    states = {"hour": added[HOUR], **{column: added[f"{column}_{way}"] for column, way in ways}}
    for name, measure in metric.aggregation.metric.measures.items():
        if measure.kind in _FIRST_LAST:
            states[name] = _choose_events(rows[HOUR], rows[name], added[HOUR], measure.kind)
    for mean, n in means.items():
        states[mean] = pc.divide(states[mean], states[n].cast(pa.float64()))
    return pa.table({name: states[name] for name in schema.names}).cast(schema)


def _choose_events(
    hours: pa.ChunkedArray, events: pa.ChunkedArray, wanted: pa.ChunkedArray, kind: MeasureKind
) -> pa.ChunkedArray:
    """For each of the ``wanted`` hours, the first or the last of the ``events`` that are not null; null without one."""
    order = [field.name for field in events.type][:-1]
    rows = {name: pc.struct_field(events, name) for name in order} | {_ROW: np.arange(len(events)), HOUR: hours}
    there = pa.table(rows).filter(pc.is_valid(events))
    way, direction = ("min", "ascending") if kind == "first" else ("max", "descending")
    times = _group(there, [(order[0], way)])
    time = times[f"{order[0]}_{way}"].combine_chunks()
    of_row = time.take(pc.index_in(there[HOUR], times[HOUR].combine_chunks()))
    nearest = there.filter(pc.equal(there[order[0]], of_row)).sort_by([(name, direction) for name in order])
    chosen = _group(nearest, [(_ROW, "first")])
    places = pc.index_in(wanted, chosen[HOUR].combine_chunks())
    return events.take(chosen[f"{_ROW}_first"].combine_chunks().take(places))


def _with_deviations(rows: pa.Table, n: str, mean: str, m2: str) -> pa.Table:
    """The rows with what adds up over an hour: the sums of the values instead of their means, and the squared
    deviations from the mean of the hour instead of that of the row.
    """
    numbers = rows[n].cast(pa.float64())
    sums = pc.multiply(numbers, rows[mean])
    of_hour = _group(pa.table({HOUR: rows[HOUR], "n": numbers, "sum": sums}), [("n", "sum"), ("sum", "sum")])
    means = pc.divide(of_hour["sum_sum"], of_hour["n_sum"]).combine_chunks()
    away = pc.subtract(rows[mean], means.take(pc.index_in(rows[HOUR], of_hour[HOUR].combine_chunks())))
    deviations = pc.add(rows[m2], pc.multiply(numbers, pc.multiply(away, away)))
    for name, column in ((mean, sums), (m2, deviations)):
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _group(rows: pa.Table, ways: Sequence[tuple[str, str]]) -> pa.Table:
    """The aggregates of columns by hour. NaN is the greatest number, as in Spark: Arrow leaves it out."""
    floating = [name for name, way in ways if way == "max" and pa.types.is_floating(rows.schema.field(name).type)]
    for name in floating:
        rows = rows.append_column(f"{_IS_NAN}{name}", pc.is_nan(rows[name]))
    nans = [(f"{_IS_NAN}{name}", "any") for name in floating]
    added = rows.group_by(HOUR, use_threads=False).aggregate([*ways, *nans])
    for name in floating:
        at, greatest = added.column_names.index(f"{name}_max"), added[f"{name}_max"]
        is_nan = pc.fill_null(added[f"{_IS_NAN}{name}_any"], False)
        nan = pa.scalar(np.nan, greatest.type)
        added = added.set_column(at, f"{name}_max", pc.if_else(is_nan, nan, greatest))
    return added
