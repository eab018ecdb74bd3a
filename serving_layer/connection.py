"""What people query: DuckDB with one view per metric, merged from both layers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb

from hourline.database import attach
from hourline.database import connect as open_duckdb
from hourline.declarations import Project, load_project
from hourline.errors import UsageError
from hourline.hours import Clock, wall_clock
from hourline.sketches import install_sketch_functions
from hourline.snapshot import Snapshot, take_snapshot
from serving_layer.mistakes import explain
from serving_layer.views import views_sql


class Connection:
    """A DuckDB connection on the merged results of one project, at one consistent snapshot of all its tables.

    Views: one per metric (``hour`` TIMESTAMPTZ in UTC, the dimensions, the finished measures, ``state``), ``<metric>_states`` (the same with
    mergeable states, for roll-ups), ``hours``, the records themselves: ``events_<source>`` and ``rejected_<source>``; ``late_events``; ``drift``: by
    how much each recomputed hour changed, one row per measure and cause; ``quality``: what each audit found, one row per hour and expectation; and
    ``<metric>_staged``: what a recompute gave for the hours that did not pass their audit. The snapshot is taken when the connection is opened, and
    again by ``refresh``.
    """

    def __init__(self, project: Project, clock: Clock = wall_clock) -> None:
        self.project = project
        self._clock = clock
        self._open()

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The result of one SELECT, as a DuckDB relation (``.fetchall()``, ``.df()``, ``.to_arrow_table()``…).

        Raises UsageError when the query is not one SELECT, or names what is not there.
        """
        with self.explaining(query):
            statements = self._duckdb.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError(f"got {len(statements)} statement(s), want exactly one SELECT; the tables are read-only")
            return self._duckdb.sql(query)

    def copy(self, query: str, path: str, options: str) -> None:
        """Write the result of one SELECT to a file, with DuckDB's COPY and its ``options``. Raises UsageError as ``sql`` does."""
        result = self.sql(query)  # noqa: F841 (DuckDB finds it by its name)
        quoted = path.replace("'", "''")
        with self.explaining(query):
            self._duckdb.execute(f"COPY (FROM result) TO '{quoted}' ({options})")

    @contextmanager
    def explaining(self, query: str) -> Iterator[None]:
        """Within the block, DuckDB's errors on ``query`` become a UsageError of one sentence. Fetching computes: wrap that too."""
        try:
            yield
        except duckdb.Error as error:
            raise UsageError(explain(error, query, self.project, self.snapshot)) from None

    @property
    def database(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection itself, for reports of the serving layer's own."""
        return self._duckdb

    @property
    def statements(self) -> list[str]:
        """By which any DuckDB with the delta extension gets the same tables and views, at this snapshot; comments say what it cannot have."""
        return [*self._attaching, *views_sql(self._duckdb, self.project, self.snapshot, functions=False)]

    @property
    def moment(self) -> str:
        """Of when the answers are, in words: the last publication, and how far each source has come."""
        publication = self.snapshot.publication
        read = [f"{name} up to sequence {known.sequence}" for name, known in self.snapshot.progress.items()]
        return "; ".join([f"publication {publication}" if publication >= 0 else "before the first publication", *read])

    def refresh(self) -> None:
        """Read from now on at the newest snapshot."""
        self._duckdb.close()
        self._open()

    def close(self) -> None:
        """Release the tables."""
        self._duckdb.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        self.taken = self._clock()
        self.snapshot: Snapshot = take_snapshot(self.project)
        self._duckdb = open_duckdb()
        self._attaching = attach(self._duckdb, self.project, self.snapshot, self.taken)
        install_sketch_functions(self._duckdb)
        for statement in views_sql(self._duckdb, self.project, self.snapshot):
            self._duckdb.execute(statement)


def connect(project: str | Path | Project, workspace: str | Path | None = None) -> Connection:
    """Open a project (its folder, or a Project) for queries; needs neither Spark nor Java.

    ``workspace`` is where its tables lie, if not where the settings say. Raises DeclarationError, TableError.
    """
    if isinstance(project, Project):
        return Connection(project)
    return Connection(load_project(Path(project), workspace=Path(workspace) if workspace else None))
