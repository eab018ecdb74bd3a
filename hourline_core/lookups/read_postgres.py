"""Reads a table or view of PostgreSQL.

libpq takes the password from PGPASSWORD, or from a file (PGPASSFILE, ``~/.pgpass``, ``passfile`` in the URL). It is no
part of a declaration, so no table, message or log of Hourline can have it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus

import pyarrow as pa

from hourline_core.errors import TableError
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.lookups.convert_column import convert_column
from hourline_core.lookups.rows import refuse_missing
from hourline_core.model.lookup import Lookup
from hourline_core.runtime.call_within import MOST_ABANDONED, AbandonedError, call_within
from hourline_core.sql.literals import identifier, literal

_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
"""How long connecting may take, and how long a host may be silent until it counts as gone: about 30 seconds. By itself,
libpq waits for two hours. In seconds, the last one in milliseconds. A URL may say otherwise.
"""
_STATEMENT = "60s"
"""How long one statement may take. The server ends it."""
_SECONDS = 120.0
"""How long all of it may take: a micro-batch waits. A server that hangs ends no statement, while its host answers."""
NUMERIC_DIGITS = 18
"""The maximum number of digits behind the point of a numeric that is declared as a whole number."""


class PostgresType(NamedTuple):
    """How values of a type of PostgreSQL are read."""

    declared: tuple[str, ...]
    """The types that a column of it may be declared with."""
    as_text: bool = False
    """Whether PostgreSQL gives its text."""


_WHOLE = ("int", "long", "float", "double", "decimal(p,s)")
POSTGRES_TYPES = {
    "smallint": PostgresType(_WHOLE),
    "integer": PostgresType(_WHOLE),
    "bigint": PostgresType(_WHOLE),
    "numeric": PostgresType(("decimal(p,s)", "int", "long"), as_text=True),
    "real": PostgresType(("float", "double")),
    "double precision": PostgresType(("double",)),
    "text": PostgresType(("string",)),
    "character varying": PostgresType(("string",)),
    "character": PostgresType(("string",)),
    "name": PostgresType(("string",)),
    "uuid": PostgresType(("string",), as_text=True),
    "enum": PostgresType(("string",), as_text=True),
    "boolean": PostgresType(("boolean",)),
    "date": PostgresType(("date",)),
    "timestamp with time zone": PostgresType(("timestamp",)),
}
"""By the name of the type. All others are refused."""
_INFINITE = ("date", "timestamp with time zone")
_COLUMNS = """
    SELECT a.attname,
           CASE WHEN b.typtype = 'e' THEN 'enum' ELSE format_type(b.oid, NULL) END,
           format_type(a.atttypid, a.atttypmod)
    FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
    WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum"""


def read_postgres(lookup: Lookup) -> pa.Table:
    """The declared columns, with their names in the table, and at most one row more than is allowed. Raises TableError,
    also if that takes longer than two minutes, and what the driver raises.
    """
    try:
        return call_within(_SECONDS, lookup.table, partial(_read, lookup))
    except TimeoutError:
        raise TableError(
            f"{lookup.table} was not read within {_SECONDS:g} seconds, which are allowed: its server does not answer, "
            "or the table is too large for it; look at the server, or name a smaller table or view"
        ) from None
    except AbandonedError:
        raise TableError(
            f"{lookup.table} is not read again: {MOST_ABANDONED} earlier reads of this process still wait for its "
            "server, and no more are allowed; look at the server, and restart this process if it does not go on"
        ) from None


def _read(lookup: Lookup) -> pa.Table:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise TableError(
            f"{lookup.table} needs a driver that is not installed: `pip install 'hourline[postgres]'`"
        ) from None
    url, name = split_url(lookup.table)
    table = ".".join(map(identifier, name.split(".")))
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        for words in (
            "TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
            f"LOCAL statement_timeout = '{_STATEMENT}'",
        ):
            cursor.execute(f"SET {words}")
        found = _query(cursor, f"SELECT to_regclass({literal(table)})::oid::bigint")
        if (oid := found.column(0)[0].as_py()) is None:
            raise TableError(f"{lookup.table}: there is no table or view {name} that this user may see")
        types = _find_types(lookup, _query(cursor, _COLUMNS.format(table=oid)))
        finite = [f"isfinite({identifier(column)})" for column, kind in types.items() if kind in _INFINITE]
        if finite:
            every = " AND ".join(f"coalesce({one}, true)" for one in finite)
            if _query(cursor, f"SELECT 1 FROM {table} WHERE NOT ({every}) LIMIT 1").num_rows:
                raise TableError(f"{lookup.table} has a date or time that is infinity, allowed is null in its place")
        selected = ", ".join(
            identifier(column) + ("::text" if POSTGRES_TYPES[kind].as_text else "") + f" AS {identifier(column)}"
            for column, kind in types.items()
        )
        rows = _query(cursor, f"SELECT {selected} FROM {table} LIMIT {lookup.most_rows + 1}")
        connection.rollback()
    return pa.table({lookup.names_in_table[name]: _convert(lookup, name, types, rows) for name in lookup.columns})


def split_url(address: str) -> tuple[str, str]:
    """The URL as libpq takes it, and the name of the table."""
    where, _, query = address.partition("?")
    # libpq takes `+` as it is, and no host as a socket. So what is for libpq stays as it is written.
    written = [(unquote(option.partition("=")[0]), option) for option in query.split("&") if option]
    name = next(option.partition("=")[2] for of, option in reversed(written) if of == "table")
    names = {of for of, _ in written}
    options = [f"{of}={value}" for of, value in _PATIENCE.items() if of not in names]
    options += [option for of, option in written if of != "table"]
    return f"{where}?{'&'.join(options)}", unquote_plus(name)


def _query(cursor: Any, sql: str) -> pa.Table:
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


def _find_types(lookup: Lookup, there: pa.Table) -> Mapping[str, str]:
    """The declared columns, by their names in the table, with their types."""
    known = {name: (kind, told) for name, kind, told in zip(*(one.to_pylist() for one in there.columns), strict=True)}
    refuse_missing(lookup, list(known))
    types = {}
    for name, named in lookup.names_in_table.items():
        kind, told = known[named]
        if kind not in POSTGRES_TYPES:
            hint = "; a time needs a zone" if kind == "timestamp without time zone" else ""
            raise TableError(
                f"column '{named}' of {lookup.table} is of type {told}, which cannot be read{hint}: allowed are "
                f"{', '.join(POSTGRES_TYPES)}; a view may convert it"
            )
        allowed = POSTGRES_TYPES[kind].declared
        declared = lookup.columns[name].type.casefold()
        if ("decimal(p,s)" if declared.startswith("decimal") else declared) not in allowed:
            raise TableError(
                f"column '{named}' of {lookup.table} is of type {told}, and declared as {lookup.columns[name].type}, "
                f"allowed is {' or '.join(allowed)}"
            )
        types[named] = kind
    return types


def _convert(lookup: Lookup, name: str, types: Mapping[str, str], rows: pa.Table) -> pa.ChunkedArray:
    named, declared = lookup.names_in_table[name], lookup.columns[name]
    if types[named] != "numeric":
        return rows[named]
    to = arrow_type(declared.tree)

    def convert(values: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return values.cast(to if pa.types.is_decimal(to) else pa.decimal128(38, NUMERIC_DIGITS))
        except pa.ArrowInvalid as error:
            raise ValueError(f"a value that is no {declared.type}: {error}; mend the row") from error

    return convert_column(lookup, name, rows, convert)
