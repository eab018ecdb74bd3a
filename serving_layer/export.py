"""Exports a snapshot of the results to files that do not need Hourline: a DuckDB database, or a folder of Parquet
files.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import duckdb

from hourline_core.errors import SetupError, TableError, UsageError
from hourline_core.machine import require_folder_of
from hourline_core.sql.literals import identifier, literal
from serving_layer.connection import Connection

SNAPSHOT = "hourline_snapshot"
"""The table about the others: project, taken (UTC), publication (null before the first one), and a row for each
source's sequence.
"""


Format = Literal["duckdb", "parquet"]
"""A DuckDB database, which is one file; or Parquet files in a folder."""


def exported_tables(connection: Connection, events: bool) -> list[str]:
    """The tables of an export, named like the views: metrics (those with windows also by the hour), hours, windows,
    drift, late_events and quality; with ``events`` also the records; and SNAPSHOT.
    """
    snapshot = connection.snapshot
    kinds = ("events", "rejected", "quarantine")
    records = [
        f"{kind}_{source}"
        for source in snapshot.progress
        for kind in kinds
        if events and (kind != "quarantine" or f"{kind}/{source}" in snapshot.other_tables)
    ]
    return [
        *_results(connection),
        "hours",
        "windows",
        "drift",
        "late_events",
        "quality",
        *records,
        SNAPSHOT,
    ]


def check_target(target: Path, form: Format, overwrite: bool) -> None:
    """Raise UsageError if an export may not be written to ``target``: something is there, or its folder does not
    exist.
    """
    require_folder_of(target)
    if form == "duckdb" and target.is_dir():
        raise UsageError(f"{target} is a folder; a DuckDB database is a file")
    if target.is_dir():
        there = [file.name for file in target.iterdir()]
        # Never delete what a user keeps beside it.
        if there and (f"{SNAPSHOT}.parquet" not in there or not all(name.endswith(".parquet") for name in there)):
            raise UsageError(
                f"the folder {target} holds something else than an export; it is not overwritten: choose another name"
            )
        if not there:
            return
    elif form == "parquet" and target.exists():
        raise UsageError(f"{target} is a file; Parquet files go into a folder")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} is already there; --overwrite replaces it")


def export(connection: Connection, target: Path, form: Format, events: bool, move: Callable[[int], None]) -> None:
    """Write the results to ``target``, which ``check_target`` has checked. ``move`` is called with the number of
    finished tables.

    The export is written beside its place and renamed at the end, so no half of it is ever there. Raises UsageError
    when it cannot be written, SetupError when the disk is full, TableError when there are no results yet.
    """
    if not connection.snapshot.progress:
        raise TableError(
            f"{connection.project.name} has no results to export yet; `hourline up` (or `hourline speed`) starts to "
            "make some"
        )
    contents = {
        name: _snapshot_sql(connection) if name == SNAPSHOT else _rows_sql(name, _results(connection).get(name))
        for name in exported_tables(connection, events)
    }
    with _beside(target) as folder:
        written = folder / "new"
        with _explaining(connection.database, target), connection.naming_damage():
            _write(connection.database, contents, form, written, move)
        if target.is_dir():
            target.rename(folder / "old")  # It is deleted with the folder.
        written.rename(target)


def _write(
    database: duckdb.DuckDBPyConnection,
    contents: Mapping[str, str],
    form: Format,
    target: Path,
    move: Callable[[int], None],
) -> None:
    if form == "duckdb":
        database.execute(f"ATTACH {literal(str(target))} AS _export")
    else:
        target.mkdir()
    for done, (name, rows) in enumerate(contents.items(), start=1):
        if form == "duckdb":
            database.execute(f"CREATE TABLE _export.{identifier(name)} AS {rows}")
        else:
            database.execute(f"COPY ({rows}) TO {literal(str(target / f'{name}.parquet'))} (FORMAT parquet)")
        move(done)
    if form == "duckdb":
        database.execute("CHECKPOINT _export")


def _results(connection: Connection) -> dict[str, str]:
    """The views with results, each with the column of its time."""
    metrics = [tables.metric for tables in connection.served]
    return {metric.name: metric.time_columns[0] for metric in metrics} | {
        metric.hourly_views[0]: "hour" for metric in metrics
    }


def _rows_sql(view: str, time: str | None) -> str:
    """The order of a table's rows. Results are sorted by ``time``, for filters on it. Records stay as they are, since
    they may not fit into memory.
    """
    if view.startswith(("events_", "rejected_", "quarantine_")):
        return f"FROM {identifier(view)}"
    return f"FROM {identifier(view)} ORDER BY {'window_start' if view == 'windows' else time or 'hour'}"


def _snapshot_sql(connection: Connection) -> str:
    snapshot = connection.snapshot
    publication = "NULL" if snapshot.publication is None else snapshot.publication
    about = (
        f"{literal(connection.project.name)} AS project, {literal(connection.taken)} AS taken, "
        f"{publication}::BIGINT AS publication"
    )
    rows = [
        f"SELECT {about}, {literal(source)} AS source, {known.sequence}::BIGINT AS sequence"
        for source, known in snapshot.progress.items()
    ]
    return f"{' UNION ALL '.join(rows)} ORDER BY source"


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A folder on the target's file system, deleted with its content at the end of the block."""
    try:
        folder = Path(mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _explaining(database: duckdb.DuckDBPyConnection, target: Path) -> Iterator[None]:
    """Within the block, errors of DuckDB and the system become a SetupError. At its end, what still runs is stopped,
    and the export is detached.
    """
    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise SetupError(
            f"the export to {target} has failed, nothing was changed there: {str(error).partition(chr(10))[0]}"
        ) from None
    finally:
        database.interrupt()  # Otherwise DuckDB would wait for ever for a query that Ctrl-C has stopped.
        with suppress(duckdb.Error):
            database.execute("DETACH DATABASE IF EXISTS _export")
