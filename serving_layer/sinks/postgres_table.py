"""A table of PostgreSQL: a row for each result, which a higher revision replaces.

PostgreSQL makes the values of the table's own types from the same JSON that other sinks send. The results that are sent
at once are one transaction. A result that is sent again changes its revision alone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hourline_core.error_causes import first_cause
from hourline_core.errors import SinkError
from hourline_core.lookups.read_postgres import split_url
from hourline_core.model import Metric, Sink
from hourline_core.model.sink import SENT_COLUMNS
from hourline_core.sql.literals import identifier
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_TYPES: dict[Callable[[pa.DataType], bool], str] = {
    pa.types.is_boolean: "boolean",
    pa.types.is_uint64: "numeric",
    pa.types.is_integer: "bigint",
    pa.types.is_decimal: "numeric",
    pa.types.is_floating: "double precision",
    pa.types.is_date: "date",
    pa.types.is_timestamp: "timestamptz",
    pa.types.is_string: "text",
    pa.types.is_large_string: "text",
    pa.types.is_binary: "text",
}
"""The first one that fits. Bytes are in Base64, as in JSON."""
_STATEMENT = "60s"
"""How long one statement may take. The server ends it."""


class PostgresTable:
    """A connection to PostgreSQL. The table is created if it is missing."""

    results_at_once = 10_000

    def __init__(self, sink: Sink, metric: Metric, columns: pa.Schema) -> None:
        """Connect. Raises SinkError."""
        assert sink.postgresql is not None
        self._place = sink.postgresql
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise SinkError(
                f"{sink.postgresql} needs a driver that is not installed: `pip install 'hourline[postgres]'`"
            ) from None
        url, name = split_url(sink.postgresql)
        self._table = ".".join(map(identifier, name.split(".")))
        self._key = ["window_start", "window_end", *metric.dimensions]
        self._value = [*metric.measures, *SENT_COLUMNS[2:]]
        try:
            self._connection: Connection = dbapi.connect(url)
            with self._connection.cursor() as cursor:
                cursor.execute(self._create_sql(columns))
            self._connection.commit()
        except Exception as error:
            raise self._error(error) from None

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """See ``Target``."""
        values = [(one.key[:-1], one.sent_value(token, revision)) for one in results]
        there = [f"{key},{value[1:]}" for key, value in values if value is not None]
        gone = [f'{key},"revision":{revision}}}' for key, value in values if value is None]
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = '{_STATEMENT}'")
                if gone:
                    cursor.execute(self._delete_sql(), [f"[{','.join(gone)}]"])
                if there:
                    cursor.execute(self._upsert_sql(), [f"[{','.join(there)}]"])
            self._connection.commit()
        except Exception as error:
            raise self._error(error) from None
        sent.keep(results, revision)

    def close(self) -> None:
        """See ``Target``."""
        self._connection.close()

    def _create_sql(self, columns: pa.Schema) -> str:
        types = {"window_start": "timestamptz", "window_end": "timestamptz", "state": "text", "token": "text"}
        types |= {"revision": "bigint"} | {one.name: _postgres_type(one.type) for one in columns}
        declared = ", ".join(f"{identifier(name)} {types[name]}" for name in (*self._key, *self._value))
        key = ", ".join(map(identifier, self._key))
        return f"CREATE TABLE IF NOT EXISTS {self._table} ({declared}, UNIQUE NULLS NOT DISTINCT ({key}))"

    def _upsert_sql(self) -> str:
        names = ", ".join(map(identifier, [*self._key, *self._value]))
        key = ", ".join(map(identifier, self._key))
        new = ", ".join(f"{identifier(name)} = excluded.{identifier(name)}" for name in self._value)
        return f"""
            INSERT INTO {self._table} AS t ({names})
            SELECT {names} FROM jsonb_populate_recordset(NULL::{self._table}, $1::jsonb)
            ON CONFLICT ({key}) DO UPDATE SET {new} WHERE t.revision < excluded.revision"""

    def _delete_sql(self) -> str:
        same = " AND ".join(f"t.{identifier(name)} IS NOT DISTINCT FROM g.{identifier(name)}" for name in self._key)
        return f"""
            DELETE FROM {self._table} t USING jsonb_populate_recordset(NULL::{self._table}, $1::jsonb) g
            WHERE {same} AND t.revision < g.revision"""

    def _error(self, error: Exception) -> SinkError:
        return SinkError(f"{self._place} has not taken results: {first_cause([str(error)])}")


def _postgres_type(kind: pa.DataType) -> str:
    """The type of a column that is created. Lists, structs and maps are ``jsonb``."""
    name = next((name for is_one, name in _TYPES.items() if is_one(kind)), "jsonb")
    return f"numeric({kind.precision},{kind.scale})" if name == "numeric" and pa.types.is_decimal(kind) else name
