"""A table of PostgreSQL: a row for each result, which a higher revision replaces.

PostgreSQL makes the values of the table's own types from the same JSON that other sinks send. The results that are sent
at once are one transaction. A result that is sent again changes its revision alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from hourline_core.error_causes import first_cause
from hourline_core.errors import SinkError
from hourline_core.lookups.read_postgres import split_url
from hourline_core.model import Metric, Sink
from hourline_core.model.sink import SENT_COLUMNS
from hourline_core.runtime.call_within import MOST_ABANDONED, AbandonedError, call_within
from hourline_core.sql.literals import identifier, literal
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
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_Of = TypeVar("_Of")
_SECONDS = 120.0
"""How long one request may take."""
_STATEMENT = "60s"
"""How long one statement may take. The server ends it."""


class PostgresTable:
    """A connection to PostgreSQL. The table is created if it is missing."""

    results_at_once = 1_000

    def __init__(self, sink: Sink, metric: Metric, columns: pa.Schema, sent: SentResults) -> None:
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
        self._sweeps = self._is_in_use = False
        self._connection: Connection
        with self._explaining():
            self._connection = call_within(_SECONDS, self._place, partial(dbapi.connect, url))
            number = self._within(partial(self._find_table, columns))
        sent.begin(f"{sink.postgresql} {number}")
        self._compare(sent)

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """See ``Target``."""
        values = [(one.key[:-1], one.sent_value(token, revision)) for one in results]
        there = [f"{key},{value[1:]}" for key, value in values if value is not None]
        gone = [f'{key},"revision":{revision}}}' for key, value in values if value is None]
        if refused := next((one for one in there if _NUL.search(one)), None):
            raise SinkError(
                f"{self._place} cannot hold a text with the character U+0000, as in {refused[:200]}; leave such events "
                "out by `where`, or send to a topic"
            )
        with self._explaining():
            self._within(partial(self._write, there, gone))
        sent.keep(results, revision)

    def end_round(self, first_revision: int) -> None:
        """See ``Target``. Rows that nobody knew of were not sent again if their results are gone."""
        if self._sweeps:
            with self._explaining():
                self._within(lambda: self._execute(f"DELETE FROM {self._table} WHERE revision < $1", first_revision))
            self._sweeps = False

    def close(self) -> None:
        """See ``Target``. A connection that another thread still uses is left to the end of the process."""
        if not self._is_in_use:
            self._connection.close()

    def _find_table(self, columns: pa.Schema) -> int:
        """The number that PostgreSQL gives the table, which is created if it is missing."""
        # By name first: somebody who may write into a table may not be allowed to create one.
        if self._number() is None:
            self._execute(self._create_sql(columns))
        there = self._fetch(f"SELECT * FROM {self._table} LIMIT 0").schema.names
        if lacking := [name for name in (*self._key, *self._value) if name not in there]:
            raise SinkError(
                f"{self._place} has no column {', '.join(lacking)}: add it (`ALTER TABLE … ADD`), or name another table"
            )
        return self._number() or 0

    def _number(self) -> int | None:
        found = self._fetch(f"SELECT to_regclass({literal(self._table)})::oid::bigint")
        number: int | None = found.column(0)[0].as_py()
        return number

    def _compare(self, sent: SentResults) -> None:
        """Compare what the table has with what was sent. One of both may have been restored or deleted. Then all
        results are sent again, and all other rows are deleted.
        """
        asked = "SELECT count(*), coalesce(sum(revision), 0)::text, coalesce(max(revision), 0) FROM "
        with self._explaining():
            rows = self._within(lambda: self._fetch(asked + self._table))
        count, total, highest = (column[0].as_py() for column in rows.columns)
        if (count, int(total)) != sent.revisions:
            sent.forget(sent.place)
            self._sweeps = True
        sent.keep([], highest)

    def _write(self, there: Sequence[str], gone: Sequence[str]) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = '{_STATEMENT}'")
            if gone:
                cursor.execute(self._delete_sql(), [f"[{','.join(gone)}]"])
            if there:
                cursor.execute(self._upsert_sql(), [f"[{','.join(there)}]"])
        self._connection.commit()

    def _execute(self, statement: str, *values: object) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
        self._connection.commit()

    def _fetch(self, query: str) -> pa.Table:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows = cursor.fetch_arrow_table()
        self._connection.rollback()
        return rows

    def _within(self, call: Callable[[], _Of]) -> _Of:
        # A server that hangs ends no statement, while its host answers.
        self._is_in_use = True
        return call_within(_SECONDS, self._place, partial(self._releasing, call))

    def _releasing(self, call: Callable[[], _Of]) -> _Of:
        try:
            return call()
        finally:
            self._is_in_use = False

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Within the block, what the driver raises becomes a SinkError."""
        try:
            yield
        except SinkError:
            raise
        except TimeoutError:
            raise SinkError(f"{self._place} has not answered within {_SECONDS:g} seconds; look at the server") from None
        except AbandonedError:
            raise SinkError(
                f"{self._place} is not asked again: {MOST_ABANDONED} earlier requests of this process still wait for "
                "its server; look at the server, and restart this process if it does not go on"
            ) from None
        except Exception as error:
            raise SinkError(f"{self._place} has not taken results: {first_cause([str(error)])}") from None

    def _create_sql(self, columns: pa.Schema) -> str:
        types = {"window_start": "timestamptz", "window_end": "timestamptz", "state": "text", "token": "text"}
        types |= {"revision": "bigint"} | {one.name: _postgres_type(one.type) for one in columns}
        declared = ", ".join(f"{identifier(name)} {types[name]}" for name in (*self._key, *self._value))
        key = ", ".join(map(identifier, self._key))
        return f"CREATE TABLE {self._table} ({declared}, UNIQUE NULLS NOT DISTINCT ({key}))"

    def _upsert_sql(self) -> str:
        names = ", ".join(map(identifier, [*self._key, *self._value]))
        key = ", ".join(map(identifier, self._key))
        new = ", ".join(f"{identifier(name)} = excluded.{identifier(name)}" for name in self._value)
        return f"""
            INSERT INTO {self._table} AS t ({names})
            SELECT {names} FROM jsonb_populate_recordset(NULL::{self._table}, $1::jsonb)
            ON CONFLICT ({key}) DO UPDATE SET {new} WHERE t.revision < excluded.revision"""

    def _delete_sql(self) -> str:
        # As arrays, since nulls are equal there, and PostgreSQL joins by their hashes.
        key, gone = (", ".join(f"{of}.{identifier(name)}" for name in self._key) for of in ("t", "g"))
        return f"""
            DELETE FROM {self._table} t USING jsonb_populate_recordset(NULL::{self._table}, $1::jsonb) g
            WHERE jsonb_build_array({key}) = jsonb_build_array({gone}) AND t.revision < g.revision"""


def _postgres_type(kind: pa.DataType) -> str:
    """The type of a column that is created. Lists, structs and maps are ``jsonb``."""
    name = next((name for is_one, name in _TYPES.items() if is_one(kind)), "jsonb")
    return f"numeric({kind.precision},{kind.scale})" if name == "numeric" and pa.types.is_decimal(kind) else name
