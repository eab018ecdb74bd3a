"""What people query: DuckDB with one view per metric, merged from both layers."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb

from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.degraded import degraded_snapshot
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.ledger.time_travel import forgotten, snapshot_at, token_of
from hourline_core.ledger.token import AnswerToken
from hourline_core.model import Project, load_project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.sql.database import attach, naming_damage, tables_sql
from hourline_core.sql.database import connect as open_duckdb
from hourline_core.sql.literals import literal
from hourline_core.sql.query_tree import named_tables
from hourline_core.sql.sketches import install_sketch_functions
from serving_layer.query_scope import HourState, find_hour_states, refuse_forgotten, refuse_weak
from serving_layer.shared_snapshot import NEWEST
from serving_layer.sql_errors import explain_error
from serving_layer.views import views_sql


class Connection:
    """A DuckDB connection on the merged results of one project, at one consistent snapshot of all its tables.

    Views: one per metric (``hour`` TIMESTAMPTZ in UTC, the dimensions, the finished measures, ``state``),
    ``<metric>_states`` (the same with mergeable states, for roll-ups), ``<metric>_final`` and ``<metric>_provisional``
    (what each layer contributes to it), ``hours``, the records themselves: ``events_<source>`` and
    ``rejected_<source>``; ``late_events``; ``drift``: by how much each recomputed hour changed, one row per measure and
    cause; ``quality``: what each audit found, one row per hour and expectation; ``publications``: one row for each time
    that an hour of a metric was published; and ``<metric>_staged``: what a recompute gave for the hours that did not
    pass their audit. The snapshot is taken when the connection is opened, and again by ``refresh``; or it is the one
    ``as_of`` a token or a time (ISO text), for good. A ``strict`` one refuses answers that rest on hours that are
    missing or blocked. Where a table is damaged, opening is refused; a ``degraded`` one answers what can be answered
    all the same, and ``damage`` says what that is not.
    """

    def __init__(
        self,
        project: Project,
        clock: Clock = wall_clock,
        strict: bool = False,
        as_of: str | None = None,
        degraded: bool = False,
    ) -> None:
        if degraded and as_of is not None:
            raise UsageError(
                "an answer of an earlier time is repeated exactly, or not at all: give either --as-of or --degraded"
            )
        self.project = project
        self.strict = strict
        self._as_of = as_of
        self._degraded = degraded
        self._clock = clock
        self._open()

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The result of one SELECT, as a DuckDB relation (``.fetchall()``, ``.df()``, ``.to_arrow_table()``…).

        Raises UsageError when the query is not one SELECT, names what is not there, or rests on what is no longer kept
        of an earlier time; UnreliableResultError when the connection is ``strict`` and the answer rests on hours that
        are missing or blocked.
        """
        with self.explaining(query):
            self._check(query)
            result = self._duckdb.sql(query)
        if self.strict:
            refuse_weak(self.states(query))
        if self._as_of is not None and (gone := forgotten(self.snapshot)):
            refuse_forgotten(self.states(query), gone)
        return result

    def copy(self, query: str, path: str, options: str) -> None:
        """Write the result of one SELECT to a file, with DuckDB's COPY and its ``options``. Raises UsageError as
        ``sql`` does.
        """
        result = self.sql(query)  # noqa: F841 (DuckDB finds it by its name)
        with self.explaining(query):
            self._duckdb.execute(f"COPY (FROM result) TO {literal(path)} ({options})")

    def states(self, query: str) -> list[HourState]:
        """Which hours (UTC) of which metrics the answer to ``query`` rests on, each with its state; by metric and hour.

        Hours are narrowed down where the query does so plainly (see query_scope.py), else they are all hours of the metrics
        that it names. Raises UsageError as ``sql`` does.
        """
        with self.explaining(query):
            self._check(query)
            return find_hour_states(self._duckdb, query, [tables.metric.name for tables in self.snapshot.served])

    @property
    def token(self) -> str:
        """What answers are as of: the publication, and the last sequence of each source, such as ``p12-flights.345``."""
        return str(AnswerToken.of(self.snapshot))

    @property
    def is_past(self) -> bool:
        """Whether it shows an earlier moment (``as_of``)."""
        return self._as_of is not None

    @property
    def views(self) -> list[str]:
        """The names of all views, sorted."""
        rows = self._duckdb.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal ORDER BY view_name"
        ).fetchall()
        return [name for (name,) in rows if not name.startswith("_")]

    @contextmanager
    def explaining(self, query: str) -> Iterator[None]:
        """Within the block, DuckDB's errors on ``query`` become a UsageError of one sentence, or a TableError where a
        table is damaged.

        Fetching computes: wrap that too.
        """
        try:
            with naming_damage(self.project, self.snapshot):
                yield
        except duckdb.Error as error:
            raise UsageError(explain_error(error, self._duckdb, query, self.project, self.snapshot)) from None

    @property
    def database(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection itself, for reports of the serving layer's own."""
        return self._duckdb

    @property
    def statements(self) -> list[str]:
        """By which any DuckDB with the delta extension gets the same tables and views, at this snapshot; comments say
        what it cannot have.
        """
        return [
            *tables_sql(self.project, self.snapshot, self.taken),
            *views_sql(self._duckdb, self.project, self.snapshot, functions=False),
        ]

    @property
    def moment(self) -> str:
        """Of when the answers are, in words: the last publication, and how far each source has come."""
        publication = self.snapshot.publication
        read = [f"{name} up to sequence {known.sequence}" for name, known in self.snapshot.progress.items()]
        return "; ".join(
            [f"publication {publication}" if publication is not None else "before the first publication", *read]
        )

    def refresh(self) -> None:
        """Read from now on at the newest snapshot."""
        self._duckdb.close()
        self._open()

    def twin(self) -> Self:
        """Another connection at the same snapshot, for another thread; opened at once, since nothing is read again.
        Either may be closed first.
        """
        twin = copy(self)
        twin._duckdb = self._duckdb.cursor()
        twin._duckdb.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
        return twin

    def close(self) -> None:
        """Release it. What the newest snapshot is made of stays attached, for the next reader of this process."""
        self._duckdb.close()

    def __repr__(self) -> str:
        return f"<{self.project.name} as of {self.token}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        views = " ".join(f"<code>{name}</code>" for name in self.views)
        return f"<p><b>{escape(self.project.name)}</b> as of <code>{self.token}</code></p><p>{views}</p>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, duckdb.Error):
                with naming_damage(self.project, self.snapshot):
                    raise error
        finally:
            self.close()

    def _check(self, query: str) -> None:
        statements = self._duckdb.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError(f"got {len(statements)} statement(s), want exactly one SELECT; the tables are read-only")

        if self.snapshot.unreadable:
            named = named_tables(self._duckdb, query)
            for view, damage in self.snapshot.unreadable.items():
                if named is None or view in named:
                    raise TableError(f"'{view}' cannot be answered: {damage}")

    def _open(self) -> None:
        self.damage: list[str] = []
        """What a degraded connection does without, or has read as it was before: a sentence for each table."""
        if self._as_of is None and not self._degraded:
            opened = NEWEST.open(self.project, self._clock, self._attached)
            self.snapshot, self.taken, self._duckdb = opened.snapshot, opened.taken, opened.database
            return
        self.taken = self._clock()
        if self._as_of is not None:
            self.snapshot = snapshot_at(self.project, token_of(self.project, self._as_of, self.taken))
        else:
            self.snapshot, damage = degraded_snapshot(self.project)
            self.damage = sorted(damage)
        self._duckdb = self._attached(self.snapshot, self.taken)

    def _attached(self, snapshot: Snapshot, taken: datetime) -> duckdb.DuckDBPyConnection:
        """A new database with the tables of a snapshot, and the views on them."""
        database = open_duckdb()
        with naming_damage(self.project, snapshot):
            attach(database, self.project, snapshot, taken)
            install_sketch_functions(database)
            for statement in views_sql(database, self.project, snapshot):
                database.execute(statement)
        return database


def connect(
    project: str | Path | Project,
    workspace: str | Path | None = None,
    *,
    strict: bool = False,
    as_of: str | None = None,
    degraded: bool = False,
) -> Connection:
    """Open a project (its folder, or a Project) for queries; needs neither Spark nor Java.

    ``workspace`` is where its tables lie, if not where the settings say; ``strict`` refuses answers that rest on hours
    that are missing or blocked; ``as_of`` is the token of an earlier answer, or a time as ISO text (UTC unless it says
    otherwise). ``degraded`` answers what can be answered where tables are damaged; see ``Connection.damage``. Raises
    DeclarationError, TableError, and UsageError when there is no answer of that time, or not any more.
    """
    if not isinstance(project, Project):
        project = load_project(Path(project), workspace=Path(workspace) if workspace else None)
    return Connection(project, strict=strict, as_of=as_of, degraded=degraded)
