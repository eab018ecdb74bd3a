"""Free SQL, if ``serve.sql`` is on: one SELECT over the views, run in the sandbox. HTTP and Flight answer by it."""

from collections.abc import Collection
from threading import Event
from typing import Protocol

import duckdb
import pyarrow as pa

from hourline_core.errors import SetupError
from hourline_core.model import ServeSettings
from serving_layer.connection import Connection
from serving_layer.snapshots import Snapshots

OFF = "free SQL is off; `serve: {sql: true}` in hourline.yaml enables it, for admins"


class FreeSql(Protocol):
    """Runs free SQL. Threads may share it."""

    def answer(self, sql: str, database: duckdb.DuckDBPyConnection, views: Collection[str], gone: Event) -> pa.Table:
        """The rows of one SELECT over ``views`` of ``database``, a cursor of the caller's own. ``gone`` is set when
        nobody wants them any more. Raises HourlineError, and DuckDB's errors on the query.
        """

    def close(self) -> None:
        """Stop all queries."""


def free_sql_of(settings: ServeSettings) -> FreeSql | None:
    """Start what runs free SQL. None: it is off, and nothing of it is loaded. Raises SetupError if it is on and not
    installed, or this machine cannot confine it.
    """
    if not settings.sql:
        return None
    try:
        from serving_layer.http.sandbox.sandbox import start_free_sql
    except ModuleNotFoundError:
        raise SetupError(
            "free SQL is on (serve.sql), but this installation comes without serving_layer.http.sandbox, which runs "
            "it; install Hourline's whole wheel, or set serve.sql to false"
        ) from None
    return start_free_sql(settings)


def rows_of(free_sql: FreeSql, connection: Connection, sql: str, gone: Event) -> pa.Table:
    """The rows of one SELECT over the views of ``connection``. If two columns have one name, the second gets a number.
    ``gone`` is that of ``FreeSql.answer``. Raises HourlineError.
    """
    with connection.explaining(sql):
        return _distinctly_named(free_sql.answer(sql, connection.database, connection.views, gone))


def sources_of(snapshots: Snapshots, sql: str) -> list[str]:
    """The sources that a query names. Raises UsageError."""
    with snapshots.reader() as connection:
        return connection.sources(sql)


def _distinctly_named(rows: pa.Table) -> pa.Table:
    names: list[str] = []
    for name in rows.column_names:
        other, number = name, 1
        while other.casefold() in map(str.casefold, names):
            other, number = f"{name}_{number}", number + 1
        names.append(other)
    return rows.rename_columns(names)
