"""The views that people query, made from the snapshot's tables."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial

import duckdb

from hourline_core.aggregates import aggregate_of
from hourline_core.ledger.layout import stored_names
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Metric, Project, Source
from hourline_core.model.scratch_columns import SCRATCH_PREFIX, VALUE
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.windows import Window
from hourline_core.sql.attach_on_demand import Part, Statements
from hourline_core.sql.coverage import covered_hours_sql
from hourline_core.sql.hour_states import weakest_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.long_silences import all_long_silences_sql
from hourline_core.sql.merge import (
    LAYERS,
    Layer,
    finished_sql,
    layer_sql,
    merged_rows_sql,
    merged_states_sql,
    revised_hours,
    revised_share,
    rolled_up_sql,
    stored_types,
    values_sql,
)
from hourline_core.sql.revised_sessions import create_revised_sessions_sql
from hourline_core.sql.session_windows import session_rows_sql, sessions_sql
from hourline_core.sql.tables import KEPT_BYTES, provisional_is_kept
from hourline_core.sql.windows import (
    all_windows_sql,
    create_windows_sql,
    finished_windows_sql,
    windowed_rows_sql,
)
from serving_layer.served_metrics import served_metrics, served_rollups

_DRIFT = """
    SELECT hour, source, metric, measure, c.cause AS cause, c.amount AS amount, c.cells AS cells,
           at_close, provisional, final, cutoff, published
    FROM hourline.drift LEFT JOIN UNNEST(causes) AS known(c) ON true"""

_WHY_ABSENT = "DuckDB alone cannot merge their states; `hourline export` and `hourline query` give it"

_NO_LATE_EVENTS = """
    SELECT NULL::VARCHAR AS source, NULL::TIMESTAMPTZ AS hour, NULL::TIMESTAMPTZ AS event_time,
           NULL::BIGINT AS late_seconds, NULL::TIMESTAMPTZ AS arrived, NULL::BIGINT AS sequence,
           NULL::VARCHAR AS topic, NULL::INTEGER AS partition, NULL::BIGINT AS "offset"
    WHERE false"""


def view_parts(project: Project, snapshot: Snapshot, functions: bool = True) -> Iterator[Part]:
    """The parts that make the views which ``Connection`` describes, from those of ``table_parts``.

    Without ``functions`` they suit a DuckDB that lacks those of sketches.py. Measures that need them are left out, and
    a comment says so.
    """
    for tables in snapshot.served:
        yield from _views_of_metric(tables, snapshot, functions)
    for tables, base in served_rollups(project, snapshot):
        yield from _views_of_rollup(tables, base, snapshot, functions)
    for name, known in snapshot.progress.items():
        if (view := f"events_{name}") not in snapshot.unreadable:
            yield Part((view,), _in_schema([view]), partial(_events_sql, view, project.sources[name], known.sequence))
        if (view := f"rejected_{name}") not in snapshot.unreadable:
            # A row without a reason keeps the bytes of a record without an event.
            finished = f"sequence <= {known.sequence} AND reason IS NOT NULL"
            yield _view_part(view, [view], f"FROM hourline.{view} WHERE {finished}")
        if f"quarantine/{name}" in snapshot.other_tables and (view := f"quarantine_{name}") not in snapshot.unreadable:
            yield _view_part(view, [view], f"FROM hourline.{view} WHERE sequence <= {known.sequence}")
    yield _view_part("hours", ["metric_hours", *_each("source_hours", snapshot)], _hours_sql(project, snapshot))
    yield _view_part("long_silences", _each("long_silences", snapshot), all_long_silences_sql(snapshot.progress))
    windowed = [tables for tables in served_metrics(project, snapshot) if not tables.metric.window.is_hour]
    yield _view_part("windows", [f"windows_{tables.name}" for tables in windowed], all_windows_sql(windowed))
    if "late_events" not in snapshot.unreadable:
        yield _view_part(
            "late_events", [*_each("events", snapshot), *_each("late", snapshot)], _late_events_sql(snapshot)
        )
    yield _view_part("drift", ["drift"], _DRIFT)
    yield _view_part("quality", ["quality"], "SELECT * EXCLUDE (declaration) FROM hourline.quality")
    yield _view_part("publications", ["drift", "coverage"], _publications_sql(snapshot))
    for tables in snapshot.recomputed:
        if f"{tables.metric.name}_staged" not in snapshot.unreadable:
            yield _staged_part(tables, snapshot, functions)


def _views_of_metric(tables: MetricTables, snapshot: Snapshot, functions: bool) -> Iterator[Part]:
    name, sequence = tables.metric.name, snapshot.progress[tables.source.name].sequence
    needs = [f"hours_{tables.name}", *([] if tables.final is None else [f"final_{tables.name}"])]

    def create_merged(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        metric, stored = _computable(connection, tables, functions)
        if metric != tables.metric:
            absent = [measure for measure in tables.metric.measures if measure not in metric.measures]
            yield f"-- {name} is without {', '.join(absent)}: {_WHY_ABSENT}"
        if metric.measures:
            revised = revised_hours(connection, tables)
            kept = _merged_is_kept(connection, snapshot, tables, revised)
            yield merged_rows_sql(tables, stored, sequence, revised, kept)
            yield f"CREATE VIEW {name}_states AS {merged_states_sql(tables, stored, revised)}"
            yield from _finished_views(tables, metric, stored)

    def create_layer(layer: Layer, connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        metric, stored = _computable(connection, tables, functions)
        if metric.measures:
            states = layer_sql(tables, stored, sequence, revised_hours(connection, tables), layer)
            yield f"CREATE VIEW {name}_{layer} AS {finished_sql(metric, stored, f'({states})')}"

    yield from _result_parts(tables, sequence, _in_schema(needs), create_merged)
    for layer in LAYERS:
        yield Part((f"{name}_{layer}",), _in_schema(needs), partial(create_layer, layer))


def _views_of_rollup(tables: MetricTables, base: MetricTables, snapshot: Snapshot, functions: bool) -> Iterator[Part]:
    """The views of a metric over another one, whose tables get its name, too."""
    kinds = ["hours", "provisional", *([] if tables.final is None else ["final"])]
    names, of_base = ([f"{kind}_{one.name}" for kind in kinds] for one in (tables, base))
    same = [f"CREATE VIEW hourline.{name} AS FROM hourline.{of}" for name, of in zip(names, of_base, strict=True)]
    yield Part(_in_schema(names), _in_schema(of_base), lambda _: same)

    def create(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        metric, stored = _computable(connection, tables, functions)
        if metric.measures:
            states = rolled_up_sql(metric, stored, f"{base.metric.name}_states")
            yield f"CREATE VIEW {metric.name}_states AS {states}"
            yield from _finished_views(tables, metric, stored)

    sequence = snapshot.progress[tables.source.name].sequence
    yield from _result_parts(tables, sequence, (*_in_schema(names), f"{base.metric.name}_states"), create)


def _result_parts(tables: MetricTables, sequence: int, needs: tuple[str, ...], create: Statements) -> Iterator[Part]:
    """The parts of the views of merged results, which ``create`` makes, and of what they need."""
    metric = tables.metric
    views, windowed = [f"{metric.name}_states", metric.name], f"hourline.windowed_{tables.name}"
    if not metric.window.is_hour:
        views += [metric.hourly_views[0], windowed]
        needs = (*needs, f"hourline.source_hours_{tables.source.name}")
        if isinstance(metric.window, SessionWindow):  # which are found among the rows
            yield _revised_sessions_part(tables, sequence)
            needs = (*needs, f"hourline.revised_{tables.name}")
            listed = f"CREATE VIEW hourline.windows_{tables.name} AS {sessions_sql(tables, windowed)}"
            yield Part(_in_schema([f"windows_{tables.name}"]), (windowed,), lambda _: [listed])
        else:
            yield _windows_part(tables, metric.window.windows, sequence)
            needs = (*needs, f"hourline.windows_{tables.name}")
    yield Part(tuple(views), needs, create)


def _finished_views(tables: MetricTables, metric: Metric, stored: Mapping[str, str]) -> Iterator[str]:
    """The statements that make the views of finished results, from the view of states."""
    hourly = metric.hourly_views[0]
    yield f"CREATE VIEW {identifier(hourly)} AS {finished_sql(metric, stored, f'{metric.name}_states')}"
    if hourly != metric.name:
        rows = session_rows_sql(tables) if metric.session else windowed_rows_sql(tables)
        yield f"CREATE VIEW hourline.windowed_{tables.name} AS {rows}"
        windows = finished_windows_sql(metric, stored, f"FROM hourline.windowed_{tables.name}")
        yield f"CREATE VIEW {identifier(metric.name)} AS {windows}"


def _revised_sessions_part(tables: MetricTables, sequence: int) -> Part:
    layers = ["provisional", *([] if tables.final is None else ["final"])]

    def create(connection: duckdb.DuckDBPyConnection) -> list[str]:
        return [create_revised_sessions_sql(tables, sequence, revised_hours(connection, tables))]

    needs = _in_schema([f"{kind}_{tables.name}" for kind in ("hours", *layers)])
    return Part(_in_schema([f"revised_{tables.name}"]), needs, create)


def _windows_part(tables: MetricTables, windows: Window, sequence: int) -> Part:
    rows = [f"provisional_{tables.name}"] if tables.metric.pane else []
    of_source = [f"{kind}_{tables.source.name}" for kind in ("source_hours", "long_silences")]
    needs = _in_schema([f"hours_{tables.name}", *of_source, *rows])
    return Part(
        _in_schema([f"windows_{tables.name}"]),
        needs,
        lambda connection: [create_windows_sql(connection, tables, windows, sequence)],
    )


def _merged_is_kept(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, tables: MetricTables, revised: list[datetime]
) -> bool:
    """Whether the merged rows of a metric are kept in memory. They are not many more than what they are made of."""
    if not provisional_is_kept(snapshot, tables):
        return False
    if tables.final is None:
        return True
    files = snapshot.files.get((f"final/{tables.metric.name}/{tables.declaration}", tables.final))
    size = files.size if files else 0
    return size < KEPT_BYTES or size * revised_share(connection, tables, revised) < KEPT_BYTES


def _staged_part(tables: MetricTables, snapshot: Snapshot, functions: bool) -> Part:
    def create_staged(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        metric, stored = _computable(connection, tables, functions)
        if metric.measures:
            yield f"CREATE VIEW {metric.name}_staged AS {_staged_sql(tables, metric, stored, snapshot)}"

    needs = [f"provisional_{tables.name}", *([f"staged_{tables.name}"] if snapshot.staged_versions(tables) else [])]
    return Part((f"{tables.metric.name}_staged",), _in_schema(needs), create_staged)


def _view_part(view: str, needs: list[str], query: str) -> Part:
    return Part((view,), _in_schema(needs), lambda _: [f"CREATE VIEW {view} AS {query}"])


def _in_schema(names: list[str]) -> tuple[str, ...]:
    return tuple(f"hourline.{name}" for name in names)


def _each(kind: str, snapshot: Snapshot) -> list[str]:
    """The tables of a kind of all sources."""
    return [f"{kind}_{source}" for source in snapshot.progress]


def _events_sql(view: str, source: Source, sequence: int, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The view of the archived events of ``source`` up to ``sequence``. A field has its declared name, and another
    column of the archive that has the same name gets a prefix. The bytes of the records are left out.
    """
    archived = [name for name, *_ in connection.execute(f"DESCRIBE hourline.{view}").fetchall()]
    plain = {name.casefold(): name for name in archived}
    names: dict[str, str] = {}
    for field, stored in stored_names(source, archived).items():
        if own := plain.get(field.casefold()):
            names[own] = f"{SCRATCH_PREFIX}{own}"
        if stored in archived:
            names[stored] = field
    renamed = ", ".join(f"{identifier(column)} AS {identifier(name)}" for column, name in names.items())
    left_out = f" EXCLUDE ({VALUE})" if VALUE in archived else ""
    columns = f"*{left_out}{f' RENAME ({renamed})' if names else ''}"
    return [f"CREATE VIEW {view} AS SELECT {columns} FROM hourline.{view} WHERE sequence <= {sequence}"]


def _computable(
    connection: duckdb.DuckDBPyConnection, tables: MetricTables, functions: bool
) -> tuple[Metric, dict[str, str]]:
    """The metric with its computable measures, with or without ``functions``, and its stored columns without the
    other measures' columns.
    """
    metric, stored = tables.metric, stored_types(connection, tables)
    if functions:
        return metric, stored
    absent = {name for name, measure in metric.measures.items() if aggregate_of(measure).needs_functions}
    measures = {
        name: measure
        for name, measure in metric.measures.items()
        if name not in absent and absent.isdisjoint(measure.operands)
    }
    return metric.model_copy(update={"measures": measures}), {
        column: kind for column, kind in stored.items() if column not in absent
    }


def _publications_sql(snapshot: Snapshot) -> str:
    """publication, published, source, metric, hour, cutoff, current: one row for each time that an hour of a metric was
    published.

    They come from drift, which is kept for ever. Rows that only coverage has (published before there was drift) have no
    number.
    """
    return f"""
        WITH told AS (
            SELECT publication, any_value(published) AS published, source, metric, declaration, hour,
                   any_value(cutoff) AS cutoff,
                   row_number() OVER (PARTITION BY metric, declaration, hour ORDER BY publication DESC) = 1 AS newest
            FROM hourline.drift GROUP BY publication, source, metric, declaration, hour
        ), counting AS (
            SELECT *, true AS newest FROM ({covered_hours_sql(snapshot.served)})
        )
        -- A declaration is promoted with all of its hours, also those recomputed before, up to another cutoff.
        SELECT publication, coalesce(t.published, c.published) AS published, source, metric, hour,
               coalesce(c.cutoff, t.cutoff) AS cutoff, c.hour IS NOT NULL AS current
        FROM told t FULL JOIN counting c USING (source, metric, declaration, hour, newest)"""


def _staged_sql(tables: MetricTables, metric: Metric, stored: Mapping[str, str], snapshot: Snapshot) -> str:
    """hour, the dimensions, the finished measures, cutoff: the results of the last recompute of each blocked hour."""
    # If there are none, the columns come from a table that always exists.
    rows = (
        f"FROM hourline.staged_{tables.name}"
        if snapshot.staged_versions(tables)
        else f"SELECT *, NULL::BIGINT AS cutoff FROM hourline.provisional_{tables.name} WHERE false"
    )
    values = values_sql(metric, stored, rows, metric.dimensions)
    return f"SELECT * FROM ({values}) LEFT JOIN (SELECT DISTINCT hour, cutoff FROM ({rows})) USING (hour)"


def _late_events_sql(snapshot: Snapshot) -> str:
    """Every event that came after its hour had closed. late_seconds is its distance from its source's clock."""
    parts = [
        f"""SELECT {literal(source)}, e.hour, e.event_time, epoch(l.clock - e.event_time)::BIGINT, l.arrived,
                   e.sequence, e.topic, e.partition, e."offset"
            FROM hourline.events_{source} e JOIN hourline.late_{source} l ON l.hour = e.hour AND l.sequence = e.sequence
            WHERE NOT e.duplicate"""
        for source in snapshot.progress
    ]
    return " UNION ALL ".join([_NO_LATE_EVENTS, *parts])


def _hours_sql(project: Project, snapshot: Snapshot) -> str:
    """kind ('source' or 'metric'), name, hour, state, events, late, closed. A source is in the weakest state of its
    metrics.
    """
    metrics = (
        "SELECT 'metric' AS kind, metric AS name, hour, state, events, late, closed FROM hourline.metric_hours WHERE "
        "served"
    )
    listed = [
        f"SELECT {literal(source)} AS source, hour, events, late, closed FROM hourline.source_hours_{source}"
        for source in project.sources
        if source in snapshot.progress
    ]
    if not listed:
        return metrics
    # All sources are joined at once: planning a join for each would take longer than the rest. A source without
    # metrics has no state: nothing is computed of it.
    return (
        f"{metrics} UNION ALL SELECT 'source', source, hour, s.state, h.events, h.late, h.closed "
        f"FROM ({' UNION ALL '.join(listed)}) h LEFT JOIN (SELECT source, hour, {weakest_sql()} AS state "
        "FROM hourline.metric_hours WHERE served GROUP BY source, hour) s USING (source, hour)"
    )
