"""The tables and views of a snapshot in a DuckDB, each attached when it is first needed.

A snapshot pins every version, so what is attached later shows the same moment.
"""

import threading
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import duckdb

from hourline_core.sql.query_tree import find_names

SCHEMA = "CREATE SCHEMA hourline"
"""The statement before those of all parts."""


Statements = Callable[[duckdb.DuckDBPyConnection], Iterable[str]]
"""Gives statements, once what they need is there."""


@dataclass(frozen=True)
class Part:
    """Some tables and views that are attached together."""

    names: tuple[str, ...]
    """Their names in SQL."""
    needs: tuple[str, ...]
    """The names of tables and views of other parts, which are attached before."""
    statements: Statements
    """Gives the statements that attach them, once what they need is there."""


class AttachedParts:
    """Which parts of one snapshot are attached to one DuckDB. Threads may share it, each with its own cursor.

    Statements run on the cursor of who asks, so that its ``interrupt`` stops them. Only those who need the same part
    wait for each other.
    """

    def __init__(self, database: duckdb.DuckDBPyConnection, parts: Iterable[Part]) -> None:
        database.execute(SCHEMA)
        self._parts = {name: part for part in parts for name in part.names}
        """By each of its names, the part, so one part may be here several times."""
        self._locks = {part: threading.Lock() for part in self._parts.values()}
        self._attached: set[str] = set()

    def attach_for(self, cursor: duckdb.DuckDBPyConnection, query: str) -> None:
        """Attach the tables and views that ``query``, one SELECT, names; or all, if it may read others. Raises DuckDB's
        errors; then a later call tries again.
        """
        if len(self._attached) == len(self._parts):
            return
        named = find_names(cursor, query)
        # Any other name may be a view of DuckDB's own that lists all tables, such as duckdb_columns.
        if named.may_be_any or named.may_list or named.tables - named.expressions - self._parts.keys():
            self.attach_all(cursor)
            return
        self.attach(cursor, named.tables)

    def attach(self, cursor: duckdb.DuckDBPyConnection, names: AbstractSet[str]) -> None:
        """Attach those of ``names`` that the snapshot has. Raises DuckDB's errors."""
        for name in names & self._parts.keys():
            self._attach(cursor, name)

    def attach_all(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Attach all tables and views. Raises DuckDB's errors."""
        if len(self._attached) < len(self._parts):
            for name in self._parts:
                self._attach(cursor, name)

    def _attach(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        if name in self._attached:
            return
        part = self._parts[name]
        for needed in part.needs:
            self._attach(cursor, needed)
        with self._locks[part]:
            if name in self._attached:
                return
            cursor.begin()
            try:
                for statement in part.statements(cursor):
                    cursor.execute(statement)
                cursor.commit()
            except BaseException:
                cursor.interrupt()  # Otherwise DuckDB would wait for ever for a statement that Ctrl-C has stopped.
                cursor.rollback()
                raise
            self._attached.update(part.names)


def all_statements(connection: duckdb.DuckDBPyConnection, parts: Iterable[Part]) -> list[str]:
    """The statements of all parts, in order. Their tables are in ``connection`` already."""
    return [SCHEMA, *(statement for part in parts for statement in part.statements(connection))]
