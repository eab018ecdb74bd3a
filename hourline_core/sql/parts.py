"""The tables and views of a snapshot in a DuckDB, each made when it is first needed.

A snapshot pins every version, so what is made later shows the same moment.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import duckdb

from hourline_core.sql.query_tree import named_views

SCHEMA = "CREATE SCHEMA hourline"
"""The statement before those of all parts."""


_QUERIES = 1_000
"""The maximum number of queries that are remembered not to need any other part."""


@dataclass(frozen=True)
class Part:
    """Some tables and views that are made together."""

    names: tuple[str, ...]
    """Their names in SQL."""
    needs: tuple[str, ...]
    """The names of tables and views of other parts, which are made before."""
    statements: Callable[[duckdb.DuckDBPyConnection], Iterable[str]]
    """Gives the statements that make them, once what they need is there."""


class AttachedParts:
    """The parts of one snapshot in one DuckDB. Threads may share it."""

    def __init__(self, database: duckdb.DuckDBPyConnection, parts: Iterable[Part]) -> None:
        """``parts`` come in an order in which all can be made."""
        self._database = database
        self._database.execute(SCHEMA)
        self._missing = {name: part for part in parts for name in part.names}
        self._made_for: set[str] = set()
        self._lock = threading.Lock()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one thread. The others stay open when it is closed."""
        connection = self._database.cursor()
        connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
        return connection

    def make_for(self, query: str) -> None:
        """Make the tables and views that ``query``, one SELECT, names. Raises DuckDB's errors; then a later call tries
        again.
        """
        if self._missing and query not in self._made_for:
            with self._lock:
                named = named_views(self._database, query)
                self._make_all(list(self._missing) if named is None else named)
                self._made_for.add(query)
                if len(self._made_for) > _QUERIES:
                    self._made_for.clear()

    def make(self) -> None:
        """Make all tables and views. Raises DuckDB's errors."""
        if self._missing:
            with self._lock:
                self._make_all(list(self._missing))

    def _make_all(self, names: Iterable[str]) -> None:
        for name in names:
            self._make(name)

    def _make(self, name: str) -> None:
        part = self._missing.get(name)
        if part is None:
            return
        for needed in part.needs:
            self._make(needed)
        self._database.begin()
        try:
            for statement in part.statements(self._database):
                self._database.execute(statement)
            self._database.commit()
        except BaseException:
            self._database.rollback()
            raise
        for made in part.names:
            del self._missing[made]


def all_statements(connection: duckdb.DuckDBPyConnection, parts: Iterable[Part]) -> list[str]:
    """The statements of all parts, in order. Their tables are in ``connection`` already."""
    return [SCHEMA, *(statement for part in parts for statement in part.statements(connection))]
