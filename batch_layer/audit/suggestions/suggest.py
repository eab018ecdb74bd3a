"""Suggests expectations from the last weeks of a metric's published results, or of a source's archived events.

DuckDB counts over one snapshot. Nothing starts Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb

from batch_layer.audit.built_in_expectations import Facts, compare_with_history
from batch_layer.audit.facts import count_archived
from batch_layer.audit.history_bounds import read_past_values
from batch_layer.audit.past_hours import read_closed_hours, read_published_hours
from batch_layer.audit.suggestions.expectations import Suggested, suggest_on_columns, suggest_on_row_count
from batch_layer.audit.suggestions.history import SuggestedHistory, suggest_history
from batch_layer.audit.suggestions.seen_rows import SEEN, SeenRows, describe_rows
from batch_layer.audit.suggestions.volume import suggest_volume
from batch_layer.audit.volume import compare_volume, read_arrivals
from hourline_core.errors import UsageError
from hourline_core.ledger.layout import stored_names
from hourline_core.model import History, Metric, Project, Source, Volume
from hourline_core.model.hours import HOUR, Clock
from hourline_core.sql.database import open_database
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import values_sql

_ENOUGH = 5 * 24
"""The minimum number of hours that a suggestion rests on."""
_ENOUGH_WITH_ROWS = 24
"""The minimum number of these hours that have rows."""


@dataclass(frozen=True)
class Suggestion:
    """Expectations that pass on the hours they were made from."""

    hours: Sequence[datetime]
    """These hours (UTC), in order."""
    rows: int
    """The number of rows in them."""
    expectations: list[Suggested]
    history: SuggestedHistory
    """The comparison with past days: of the results, or of the number of events."""
    volume: Volume | None
    """Of a source: bounds of its volume, with that comparison. None: of a metric."""
    volume_seen: str = ""
    """What was seen of the volume, in words."""


def suggest_for_metric(project: Project, metric: Metric, weeks: int, clock: Clock) -> Suggestion:
    """Suggest expectations from the last ``weeks`` of published results. Raises UsageError if there are too few,
    TableError.
    """
    with open_database(project, clock) as (connection, snapshot):
        tables, published = read_published_hours(connection, snapshot, project, metric)
        hours = _keep_last(published, weeks)
        final = f"hourline.final_{tables.name}"
        stored = {column: kind for column, kind, *_ in connection.execute(f"DESCRIBE {final}").fetchall()}
        states = f"FROM {final} WHERE hour BETWEEN {literal(hours[0])} AND {literal(hours[-1])}"
        connection.execute(f"CREATE TEMP TABLE {SEEN} AS {values_sql(metric, stored, states, metric.dimensions)}")
        seen = describe_rows(connection, hours)
        _refuse_too_few(seen, f"metric '{metric.name}'", "published", weeks)
        known = read_past_values(connection, tables, metric.history, hours[0], hours[-1] + HOUR)
        sequence = snapshot.progress[metric.source].sequence
        arrivals = read_arrivals(connection, tables.source, sequence, hours[0], hours[-1], metric.history.days)
    of_hours = {hour: known[hour] for hour in hours if hour in known}
    adding_up = [name for name, measure in metric.measures.items() if measure.kind in ("count", "sum")]
    history = suggest_history(
        metric.history,
        lambda history: compare_with_history(
            metric.model_copy(update={"history": history}), of_hours, list(of_hours), known, arrivals.events
        ),
        adding_up,
    )
    on_columns = suggest_on_columns(seen, all_count=True, keys=frozenset(), shares=find_shares(metric))
    suggested = [*suggest_on_row_count(seen), *on_columns]
    return Suggestion(hours, seen.rows, suggested, history, None)


def suggest_for_source(project: Project, source: Source, weeks: int, clock: Clock) -> Suggestion:
    """Suggest expectations and a volume from the last ``weeks`` of archived events, in closed hours. Derived fields are
    left out: only Spark computes them. Raises UsageError if there are too few hours, TableError.
    """
    with open_database(project, clock) as (connection, snapshot):
        hours = _keep_last(list(read_closed_hours(connection, snapshot, source)), weeks)
        cutoff = snapshot.progress[source.name].sequence
        _make_events(connection, source, hours, cutoff)
        seen = describe_rows(connection, hours)
        _refuse_too_few(seen, f"source '{source.name}'", "closed", weeks)
        arrivals = read_arrivals(connection, source, cutoff, hours[0], hours[-1])
        duplicates = count_archived(connection, source, hours, cutoff).duplicates

    def compare(history: History) -> Facts:
        declared = source.model_copy(update={"volume": source.volume.model_copy(update={"history": history})})
        return compare_volume(declared, arrivals, duplicates, hours)

    history = suggest_history(source.volume.history, compare, ["events"])
    volume, told = suggest_volume(source, arrivals, duplicates, hours, history.history)
    texts = frozenset(name for name in source.event_fields if name != source.id)
    suggested = list(suggest_on_columns(seen, all_count=source.where is None, keys=texts))
    return Suggestion(hours, seen.rows, suggested, history, volume, told)


def find_shares(metric: Metric) -> frozenset[str]:
    """The ratios of a count and a count of all events, which are from 0 to 1."""
    shares = set()
    for name, measure in metric.measures.items():
        if measure.kind == "ratio":
            part, whole = (metric.measures[operand] for operand in measure.operands)
            if part.kind == whole.kind == "count" and whole.where is None:
                shares.add(name)
    return frozenset(shares)


def _make_events(connection: duckdb.DuckDBPyConnection, source: Source, hours: Sequence[datetime], cutoff: int) -> None:
    table = f"hourline.events_{source.name}"
    columns = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    there, names = {name.casefold() for name in columns}, stored_names(source, columns)
    stored = {name: names.get(name, name) for name in source.event_fields}
    fields = [
        f"{identifier(column)} AS {identifier(name)}"
        for name, column in stored.items()
        if column.casefold() in there and name.casefold() != "hour"
    ]
    within = f"hour BETWEEN {literal(hours[0])} AND {literal(hours[-1])} AND sequence <= {cutoff} AND NOT duplicate"
    connection.execute(f"CREATE TEMP VIEW {SEEN} AS SELECT {', '.join(['hour', *fields])} FROM {table} WHERE {within}")


def _keep_last(hours: list[datetime], weeks: int) -> list[datetime]:
    return [hour for hour in hours if hour > hours[-1] - timedelta(weeks=weeks)]


def _refuse_too_few(seen: SeenRows, whose: str, state: str, weeks: int) -> None:
    filled = seen.hours_with(1)
    if len(seen.hours) < _ENOUGH or filled < _ENOUGH_WITH_ROWS:
        raise UsageError(
            f"{whose} has {len(seen.hours):,} {state} hours in its last {weeks} week(s), {filled:,} of them with rows; "
            f"a suggestion needs {_ENOUGH} and {_ENOUGH_WITH_ROWS}: give more --weeks, or publish more with "
            "`hourline backfill`"
        )
