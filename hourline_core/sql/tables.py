"""The snapshot's tables in DuckDB: each table at its version, and the state of every hour."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Literal

import duckdb
import pyarrow as pa

from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA
from hourline_core.ledger.layout import CONFIRMATION_SCHEMA, DRIFT_SCHEMA, QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project, Source
from hourline_core.model.decoding import decoding_of
from hourline_core.sql.attach_on_demand import Part, Statements
from hourline_core.sql.coverage import staged_sql
from hourline_core.sql.guarded_columns import guard_columns
from hourline_core.sql.hour_states import hour_states_sql, metric_hours_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.long_silences import long_silences_sql
from hourline_core.sql.progress import gaps_sql, late_sql, source_hours_sql
from hourline_core.sql.rejected import rejected_rows_sql
from hourline_core.storage.data_files import DataFiles

Kind = Literal["TABLE", "VIEW"]
Files = Mapping[tuple[str, int], DataFiles]
NO_FILES: Files = {}

KEPT_BYTES = 8 << 20
"""The maximum size in bytes of the files of a metric whose rows are kept in memory."""

_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    TIMESTAMP: "TIMESTAMPTZ",
}


def table_parts(project: Project, snapshot: Snapshot, now: datetime, files: Files = NO_FILES) -> Iterator[Part]:
    """The parts that attach the snapshot's tables and make the views below in schema ``hourline``, for any DuckDB that
    has the delta extension.

    ``now`` (UTC) closes hours that go by wall time. Tables of which ``files`` are given are read without that
    extension, which would read the log of the table again at each question.

    - ``progress_<source>``, ``provisional_<metric>_<declaration>``, ``final_<metric>_<declaration>`` (where pinned),
      ``coverage``: the tables
    - ``progress``: source, and the columns of progress, of each row of all sources up to the snapshot's sequence
    - ``events_<source>``, ``rejected_<source>``, ``quarantine_<source>`` (if a metric of the source has a class): all
      rows, also beyond the snapshot's progress; each rejected event with the bytes of its record
    - ``decoded_<source>``: the events that were decoded anew, if there are such
    - ``source_hours_<source>`` (a table): hour, events, arrived, late, clock, closed
    - ``long_silences_<source>`` (a table): see ``long_silences_sql``
    - ``late_<source>``: hour, sequence, events, arrived, clock
    - ``gaps_<source>`` (a table, if there is one): see ``gaps_sql``, with confirmed (null: it is not), person, reason
    - ``drift``, ``quality``: what was kept of each publication (DRIFT_SCHEMA, QUALITY_SCHEMA)
    - ``hours_<metric>_<declaration>`` (a table): see ``hour_states_sql``; ``metric_hours``: all of them, see
      ``metric_hours_sql``
    - ``staged_<metric>_<declaration>``: the rows of its blocked hours, which did not pass their audit, with ``cutoff``
      (absent, if there are none)
    """
    layout = Layout.of(project)
    yield _table_part("coverage", (), _coverage_sql(layout, snapshot, files))
    for name, known in snapshot.progress.items():
        source, progress = project.sources[name], f"progress_{name}"
        yield _table_part(progress, (), _attach(progress, layout, layout.progress(source), known.version, files))
        # The states of hours are tables, since nearly every query reads them, and most of them several times.
        needs: tuple[str, ...] = (progress,)
        decoding = decoding_of(source).hash if _has_decoded(name, snapshot) else None
        if decoding:
            decoded = f"decoded_{name}"
            at = snapshot.other_tables[f"decoded/{name}/{decoding}"]
            yield _table_part(decoded, (), _attach(decoded, layout, layout.decoded(source, decoding), at))
            needs = (progress, decoded, "coverage")
        hours = source_hours_sql(source, known.sequence, now, decoding)
        yield _table_part(f"source_hours_{name}", needs, [f"CREATE TABLE hourline.source_hours_{name} AS {hours}"])
        late = f"CREATE VIEW hourline.late_{name} AS {late_sql(source, known.sequence)}"
        yield _table_part(f"late_{name}", (progress,), [late])
        needs = (f"source_hours_{name}", *([f"gaps_{name}"] if known.has_gaps else []))
        silences = long_silences_sql(source, known.has_gaps)
        yield _table_part(f"long_silences_{name}", needs, [f"CREATE TABLE hourline.long_silences_{name} AS {silences}"])
        if known.has_gaps:
            yield _table_part(f"gaps_{name}", (progress,), _gaps_sql(source, known.sequence, layout, snapshot))
        for kind, uri in (("events", layout.events(source)), ("quarantine", layout.quarantine(source))):
            if (version := snapshot.other_tables.get(f"{kind}/{name}")) is not None:
                yield _table_part(f"{kind}_{name}", (), _attach(f"{kind}_{name}", layout, uri, version))
        if (version := snapshot.other_tables.get(f"rejected/{name}")) is not None:
            yield _table_part(f"rejected_{name}", (), _rejected_sql(layout, source, version))
    yield _all_progress_part(project, layout, snapshot, files)
    for kept, uri, schema in (("drift", layout.drift, DRIFT_SCHEMA), ("quality", layout.quality, QUALITY_SCHEMA)):
        yield _table_part(kept, (), _published_sql(kept, uri, schema, snapshot))
    for tables in snapshot.metrics:
        yield from _tables_of_metric(layout, tables, snapshot, files)
    yield _table_part(
        "metric_hours",
        tuple(f"hours_{tables.name}" for tables in snapshot.metrics),
        [f"CREATE VIEW hourline.metric_hours AS {metric_hours_sql(snapshot.metrics)}"],
    )


def _all_progress_part(project: Project, layout: Layout, snapshot: Snapshot, files: Files) -> Part:
    columns = ", ".join(map(identifier, PROGRESS_SCHEMA.names))
    known = {
        name: _files_of(files, layout, layout.progress(project.sources[name]), of.version)
        for name, of in snapshot.progress.items()
    }
    sources = {path: name for name, of in known.items() if of for path in of.paths}
    needs: tuple[str, ...] = ()
    if sources and all(known.values()):
        # All files at once: the plan of a query over each source by itself takes longer than the query.
        ends = {path: snapshot.progress[name].sequence for path, name in sources.items()}
        of_files = ", ".join(f"({literal(path)}, {literal(name)}, {ends[path]})" for path, name in sources.items())
        paths = ", ".join(map(literal, sources))
        stored = f"SELECT *, filename AS path FROM read_parquet([{paths}], {_options(by_name=True)}, filename = true)"
        rows = f"""
            SELECT coalesce(f.source, error('a file of progress is of no source: ' || path)) AS source, {columns}
            FROM ({_no_rows(PROGRESS_SCHEMA)} UNION ALL BY NAME {stored}) p
            LEFT JOIN (VALUES {of_files}) AS f(path, source, last) USING (path)
            WHERE f.last IS NULL OR sequence <= f.last"""
    else:
        needs = tuple(f"progress_{name}" for name in known)
        parts = [
            f"SELECT {literal(name)} AS source, {columns} FROM hourline.progress_{name} "
            f"WHERE sequence <= {snapshot.progress[name].sequence}"
            for name in known
        ]
        none = f"SELECT NULL::VARCHAR AS source, * FROM ({_no_rows(PROGRESS_SCHEMA)})"
        rows = " UNION ALL ".join([none, *parts])
    return _table_part("progress", needs, [f"CREATE VIEW hourline.progress AS {rows}"])


def _tables_of_metric(layout: Layout, tables: MetricTables, snapshot: Snapshot, files: Files) -> Iterator[Part]:
    name, source = tables.name, tables.source
    uri = layout.provisional(source, tables.metric)
    # Streamed rows are in many small files, and every query would open each of them.
    kind: Kind = "TABLE" if provisional_is_kept(snapshot, tables) else "VIEW"
    # An older version of Hourline kept no numbers of the events that a class has folded.
    numbers = [f"{measure}__n" for measure in user_defined_of(tables.metric)]
    rows = _attach(f"provisional_{name}", layout, uri, tables.provisional, files, kind, numbers)
    yield _table_part(f"provisional_{name}", (), rows)
    if tables.final is not None:
        final = layout.final(source, tables.metric)
        rows = _attach(f"final_{name}", layout, final, tables.final, files, numbers=numbers)
        yield _table_part(f"final_{name}", (), rows)
    if staged := _staged_sql(layout, tables, snapshot):
        yield _table_part(f"staged_{name}", ("coverage",), staged)
    known = snapshot.progress[source.name]
    states = hour_states_sql(tables, known.sequence, known.has_gaps)
    needs = ["coverage", f"source_hours_{source.name}", f"provisional_{name}"]
    needs += [f"gaps_{source.name}"] if known.has_gaps else []
    yield _table_part(f"hours_{name}", tuple(needs), [f"CREATE TABLE hourline.hours_{name} AS {states}"])


def _has_decoded(source: str, snapshot: Snapshot) -> bool:
    """Whether records of a source were decoded anew by today's declaration."""
    return any(name.startswith(f"decoded/{source}/") for name in snapshot.other_tables)


def _table_part(name: str, needs: tuple[str, ...], statements: list[str] | Statements) -> Part:
    """The part that makes a table or view in schema ``hourline`` from others there."""
    given = statements if callable(statements) else lambda _: statements
    return Part((f"hourline.{name}",), tuple(f"hourline.{needed}" for needed in needs), given)


def _coverage_sql(layout: Layout, snapshot: Snapshot, files: Files) -> list[str] | Statements:
    if (publication := snapshot.publication) is None:
        return [f"CREATE VIEW hourline.coverage AS {_no_rows(COVERAGE_SCHEMA)}"]

    def statements(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        yield from _attach("all_coverage", layout, layout.coverage, publication, files)(connection)
        # The extension would go through its log for each metric again.
        kind = "VIEW" if _files_of(files, layout, layout.coverage, publication) else "TABLE"
        rows = f"{_no_rows(COVERAGE_SCHEMA)} UNION ALL BY NAME FROM hourline.all_coverage"
        yield f"CREATE {kind} hourline.coverage AS {rows}"

    return statements


def _rejected_sql(layout: Layout, source: Source, version: int) -> list[str]:
    name = f"rejected_{source.name}"
    view = f"CREATE VIEW hourline.{name} AS {rejected_rows_sql(f'_{name}')}"
    return [_attach_sql(name, layout.rejected(source), version), view]


def _gaps_sql(source: Source, sequence: int, layout: Layout, snapshot: Snapshot) -> list[str]:
    attached, confirmations = [], _no_rows(CONFIRMATION_SCHEMA)
    if (version := snapshot.other_tables.get("confirmations")) is not None:
        attached = [_attach_sql("confirmations", layout.confirmations, version)]
        confirmations = "FROM _confirmations"
    # A table is attached once, whatever the number of sources.
    confirmed = f"SELECT * EXCLUDE (source) FROM ({confirmations}) WHERE source = {literal(source.name)}"
    gaps = f"({gaps_sql(source, sequence)}) LEFT JOIN ({confirmed}) USING (sequence)"
    return [*attached, f"CREATE TABLE hourline.gaps_{source.name} AS FROM {gaps}"]


def _published_sql(kept: str, uri: str, schema: pa.Schema, snapshot: Snapshot) -> list[str] | Statements:
    """Drift or quality. Rows are only ever appended. Those of an unfinished publication have a number that no
    publication has reached.
    """
    if kept not in snapshot.other_tables or snapshot.publication is None:
        return [f"CREATE VIEW hourline.{kept} AS {_no_rows(schema)}"]
    rows = f"{_no_rows(schema)} UNION ALL BY NAME SELECT * FROM _{kept} WHERE publication <= {snapshot.publication}"

    def statements(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        yield _attach_sql(kept, uri, snapshot.other_tables[kept])
        yield f"CREATE VIEW hourline.{kept} AS {rows}"
        yield from guard_columns(connection, f"hourline.{kept}", rows)

    return statements


def provisional_is_kept(snapshot: Snapshot, tables: MetricTables) -> bool:
    """Whether the provisional rows of a metric are kept in memory. Their many small files are known, and not large."""
    files = snapshot.files.get((f"provisional/{tables.metric.name}/{tables.declaration}", tables.provisional))
    return files is not None and files.size < KEPT_BYTES


def _staged_sql(layout: Layout, tables: MetricTables, snapshot: Snapshot) -> Statements | None:
    """Each blocked hour at the version of the staged table that holds its rows. A later version may be unfinished.
    None: no hour is blocked.
    """
    versions = snapshot.staged_versions(tables)

    def statements(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        parts = []
        for version in versions:
            name = f"staged_{tables.name}_{version}"
            yield from _attach(name, layout, layout.staged(tables.source, tables.metric), version)(connection)
            parts.append(
                f"SELECT s.*, m.blocked_cutoff AS cutoff FROM hourline.{name} s JOIN ({staged_sql(tables, version)}) m "
                "USING (hour)"
            )
        yield f"CREATE VIEW hourline.staged_{tables.name} AS {' UNION ALL '.join(parts)}"

    return statements if versions else None


def _attach(
    name: str,
    layout: Layout,
    uri: str,
    version: int,
    files: Files = NO_FILES,
    kind: Kind = "VIEW",
    numbers: Collection[str] = (),
) -> Statements:
    """The statements that attach a table. It is a ``kind`` if its files are known, and otherwise a view. Columns of
    ``numbers`` (bigint) that it lacks are null.
    """

    def statements(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
        known = _files_of(files, layout, uri, version)
        if known is None:
            yield _attach_sql(name, uri, version)
        rows = _widen(name, f"FROM _{name}" if known is None else _read_files(name, known, numbers), numbers)
        yield f"CREATE {'VIEW' if known is None else kind} hourline.{name} AS {rows}"
        if known is None or (kind == "VIEW" and known.has_unsafe_ranges):
            yield from guard_columns(connection, f"hourline.{name}", rows)

    return statements


def _read_files(name: str, known: DataFiles, numbers: Collection[str]) -> str:
    """The query for all rows of a table whose files are known."""
    paths = ", ".join(map(literal, known.paths))
    # An older version of Hourline may have written fewer columns of progress and coverage. Those of a metric are as
    # declared.
    by_name = bool(numbers) or name.startswith(("progress_", "all_coverage"))
    return f"FROM read_parquet([{paths}], {_options(by_name)})"


def _options(by_name: bool) -> str:
    """Options of ``read_parquet``. Files of an older version have ranges of doubles, which say nothing of NaN."""
    return f"union_by_name = {by_name}, hive_partitioning = false, can_have_nan = true"


def _files_of(files: Files, layout: Layout, uri: str, version: int) -> DataFiles | None:
    return files.get((uri.removeprefix(f"{layout.root}/"), version))


def _widen(name: str, rows: str, numbers: Collection[str]) -> str:
    """The query ``rows`` with all columns of progress, if it is progress, and with ``numbers``. An older version of
    Hourline wrote fewer.
    """
    schema = PROGRESS_SCHEMA if name.startswith("progress_") else pa.schema([(one, pa.int64()) for one in numbers])
    return f"{_no_rows(schema)} UNION ALL BY NAME {rows}" if len(schema) else rows


def _attach_sql(name: str, uri: str, version: int) -> str:
    return f"ATTACH IF NOT EXISTS {literal(uri)} AS _{name} (TYPE delta, PIN_SNAPSHOT, VERSION {version})"


def _no_rows(schema: pa.Schema) -> str:
    """A query for no rows, with the columns of ``schema``. An older table may have fewer columns, and before the
    first publication there is none.
    """
    return (
        f"SELECT {', '.join(f'NULL::{_type(field.type)} AS {identifier(field.name)}' for field in schema)} WHERE false"
    )


def _type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type of the layout."""
    if pa.types.is_list(arrow):
        return f"{_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return f"STRUCT({', '.join(f'{identifier(field.name)} {_type(field.type)}' for field in arrow)})"
    return _TYPES[arrow]
