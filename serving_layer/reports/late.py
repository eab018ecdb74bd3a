"""Reports hours with events that came after their close, how late these were, and their effect: `hourline late`."""

from collections import defaultdict
from datetime import datetime
from typing import Any

from hourline_core.model import Metric
from hourline_core.sql.differences import compare_stages, make_stage, only_late_events, without_late_events
from hourline_core.sql.literals import literal
from hourline_core.sql.merge import counted_states_sql, stored_types
from hourline_core.sql.progress import imported_sql
from serving_layer.connection import Connection
from serving_layer.described import Described

Moved = dict[tuple[str, datetime], dict[str, "Move"]]
"""Changes by metric and hour, then by measure."""


class Move(Described):
    """What late events changed in one measure of one hour."""

    amount: float | None
    """The change over all dimensions. Null: the measure is no number."""
    cells: int
    """The number of groups that changed, summed over recomputes."""


class LateHour(Described):
    """One hour of one source that got late events."""

    source: str
    """The name of the source."""
    hour: datetime
    """The hour (UTC)."""
    state: str | None
    """The state of the hour now. `revised` or `provisional`: the late events are in the answer, and wait for a
    recompute.
    """
    events: int
    """The number of late events."""
    late_seconds: int
    """How far the latest of them was behind its source's clock, in seconds."""
    first_arrived: datetime
    """When the first of them arrived (UTC)."""
    last_arrived: datetime
    """When the last of them arrived (UTC)."""
    moved: dict[str, dict[str, Move]]
    """What they changed, by metric and measure."""


def list_late_hours(connection: Connection, hour: datetime | None = None) -> list[LateHour]:
    """Every hour with late events, or ``hour`` alone, by source and hour."""
    condition = "true" if hour is None else f"l.hour = {literal(hour)}"
    rows = connection.sql(
        "SELECT l.source, l.hour, any_value(h.state) AS state, count(*) AS events, max(late_seconds) AS late_seconds, "
        "min(arrived) AS first_arrived, max(arrived) AS last_arrived "
        "FROM late_events l LEFT JOIN hours h ON h.kind = 'source' AND h.name = l.source AND h.hour = l.hour "
        f"WHERE {condition} GROUP BY ALL ORDER BY l.source, l.hour"
    )
    late_hours = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
    moved = _moved_before(connection)
    # Of a final hour, no late event waits.
    waiting = [row["hour"] for row in late_hours if row["state"] != "final"]
    for metric, of_metric in _moving_now(connection, waiting).items():
        for measure, move in of_metric.items():
            earlier = moved[metric].get(measure, Move(amount=0, cells=0))
            amount = None if move.amount is None or earlier.amount is None else earlier.amount + move.amount
            moved[metric][measure] = Move(amount=amount, cells=earlier.cells + move.cells)
    metrics = connection.project.metrics_of
    return [
        LateHour(
            **row,
            moved={
                metric.name: _sort(metric, moves)
                for metric in metrics(row["source"])
                if (moves := moved.get((metric.name, row["hour"])))
            },
        )
        for row in late_hours
    ]


def _sort(metric: Metric, moves: dict[str, Move]) -> dict[str, Move]:
    return {measure: moves[measure] for measure in metric.measures if measure in moves}


def list_imports(connection: Connection, hour: datetime | None = None) -> list[tuple[str, datetime, int]]:
    """Each hour that an import has revised, or ``hour`` alone: source, hour (UTC), and the number of imported events
    that no recompute has counted yet. Of imported history no event is late.
    """
    imports = []
    condition = "true" if hour is None else f"hour = {literal(hour)}"
    for name, progress in connection.snapshot.progress.items():
        imported = imported_sql(connection.project.sources[name], progress.sequence)
        rows = connection.sql(
            f"SELECT hour, sum(events)::BIGINT FROM ({imported}) JOIN ("
            "SELECT hour, min(cutoff) AS cutoff FROM hourline.metric_hours "
            f"WHERE served AND source = {literal(name)} AND state = 'revised' GROUP BY hour) USING (hour) "
            f"WHERE sequence > cutoff AND {condition} GROUP BY hour ORDER BY hour"
        )
        imports += [(name, *row) for row in rows.fetchall()]
    return imports


def list_late_events(connection: Connection, hour: datetime) -> list[dict[str, Any]]:
    """The late events of one hour, one by one: source, event_time, late_seconds, arrived, sequence, topic, partition,
    offset.
    """
    rows = connection.sql(
        'SELECT source, event_time, late_seconds, arrived, sequence, topic, partition, "offset" FROM late_events '
        f'WHERE hour = {literal(hour)} ORDER BY source, sequence, topic, partition, "offset"'
    )
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]


def _moved_before(connection: Connection) -> defaultdict[tuple[str, datetime], dict[str, Move]]:
    """Changes by late events that a recompute has counted since, as kept in drift."""
    amount = "CASE WHEN count(amount) = count(*) THEN sum(amount) END"
    rows = connection.sql(
        f"SELECT metric, hour, measure, {amount}, sum(cells) FROM drift WHERE cause = 'late' GROUP BY ALL"
    ).fetchall()
    moved: defaultdict[tuple[str, datetime], dict[str, Move]] = defaultdict(dict)
    for metric, hour, measure, amount, cells in rows:
        moved[metric, hour][measure] = Move(amount=amount, cells=cells)
    return moved


def _moving_now(connection: Connection, hours: list[datetime]) -> Moved:
    """Changes by late events of ``hours`` that wait for a recompute: the merged answer with them, and without."""
    moving: defaultdict[tuple[str, datetime], dict[str, Move]] = defaultdict(dict)
    if not hours:
        return moving
    database = connection.database
    among = ", ".join(map(literal, sorted(set(hours))))
    for tables in connection.snapshot.served:
        stored = stored_types(database, tables)
        counted = counted_states_sql(tables, stored, connection.snapshot.progress[tables.source.name].sequence)
        counted = f"FROM ({counted}) WHERE hour IN ({among})"
        late = only_late_events(counted, tables)
        database.execute(f"CREATE OR REPLACE TEMP TABLE _counted AS FROM ({counted}) SEMI JOIN ({late}) USING (hour)")
        before = make_stage(database, "at_close", tables.metric, stored, without_late_events("FROM _counted", tables))
        after = make_stage(database, "now", tables.metric, stored, "FROM _counted")
        for difference in compare_stages(database, before, after):
            moving[tables.metric.name, difference.hour][difference.measure] = Move(
                amount=difference.amount, cells=difference.cells
            )
    return moving
