"""DuckDB on one snapshot of a project's tables: what opens, attaches and refreshes it, and explains its errors."""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

import duckdb

from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.missing_hours import MissingHours
from hourline_core.ledger.pending_declarations import PendingDeclaration, find_pending
from hourline_core.ledger.time_travel import find_forgotten
from hourline_core.ledger.token import AnswerToken
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.scratch_columns import SCRATCH_PREFIX
from hourline_core.sql.database import cursor_of, naming_damage
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.missing_hours import read_missing_hours
from hourline_core.sql.query_tree import find_names
from hourline_core.storage.version_retention import KEPT_HOURS
from serving_layer.bytes_as_text import bytes_as_text
from serving_layer.open_snapshot import open_snapshot
from serving_layer.query_scope import HourState, StateTables, find_hour_states, refuse_forgotten, refuse_weak
from serving_layer.relation import Relation
from serving_layer.served_metrics import served_metrics
from serving_layer.session_starts import narrow_sessions
from serving_layer.sql_errors import explain_error


class SnapshotConnection:
    """A DuckDB connection on the merged results of one project, at one consistent snapshot of all its tables. See
    ``Connection``, which people use.
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
                "got both --as-of and --degraded, allowed is one: an earlier result is repeated exactly or not at all"
            )
        self.project = project
        self.strict = strict
        self._as_of = as_of
        self._degraded = degraded
        self._clock = clock
        self._duckdb: duckdb.DuckDBPyConnection
        self._root: duckdb.DuckDBPyConnection
        """The connection that cursors are made of, which would be closed with it."""
        self._open()

    def sql(self, query: str) -> Relation:
        """The result of one SELECT. It has all methods of a DuckDB relation (``.fetchall()``, ``.df()``,
        ``.to_arrow_table()``…), which may raise the same errors, since they compute it.

        Raises UsageError when the query is not one SELECT, names something that does not exist, or needs earlier rows
        that are no longer kept. Raises UnreliableResultError when the connection is ``strict`` and the answer uses
        hours that are missing, blocked or incomplete. Raises TableError when a table is damaged.

        Only the tables that ``query`` needs are attached.
        """
        with self.explaining(query):
            self._check(query)
            relation = self._duckdb.sql(narrow_sessions(self._duckdb, query, self.served))
        if self.strict:
            states = self.states(query)
            refuse_weak(states, self.missing_among(states))
        if self._as_of is not None and (gone := find_forgotten(self.snapshot)):
            refuse_forgotten(self.states(query), gone)
        return Relation(relation, partial(self.explaining, query), partial(self._parts.attach_all, self._duckdb))

    def copy(self, query: str, path: str, options: str, *, as_text: bool = False) -> None:
        """Write the result of one SELECT to a file, with DuckDB's COPY and its ``options``. ``as_text``: bytes are as
        ``bytes_as_text`` shows them. Raises UsageError as ``sql`` does.
        """
        result, name = self.sql(query), f"{SCRATCH_PREFIX}result"
        columns = ", ".join(
            f"{_written(f'#{number}', kind.id, as_text=as_text)} AS {identifier(column)}"
            for number, (column, kind) in enumerate(zip(result.columns, result.types, strict=True), start=1)
        )
        with self.explaining(query):
            result.bare.query(name, f"COPY (SELECT {columns} FROM {name}) TO {literal(path)} ({options})")

    def states(self, query: str) -> list[HourState]:
        """The hours (UTC) that the answer to ``query`` uses, each with its state, by metric and hour.

        A plain condition on the hour narrows them (see query_scope.py). Otherwise they are all hours of the metrics
        that it names. Raises UsageError as ``sql`` does.
        """
        with self.explaining(query):
            self._check(query)
            served = [StateTables.of(tables, self.project.base_of(tables.metric.name)) for tables in self.served]
            return find_hour_states(self._duckdb, query, served)

    @property
    def token(self) -> str:
        """The token of the snapshot, such as ``p12-flights.345``: the publication, and the last sequence of each
        source.
        """
        return str(AnswerToken.of(self.snapshot))

    @property
    def served(self) -> list[MetricTables]:
        """Each metric as it is served, over a source or over another metric."""
        return served_metrics(self.project, self.snapshot)

    @property
    def now(self) -> datetime:
        """The time (UTC), which may be after the snapshot was taken."""
        return self._clock()

    @property
    def is_past(self) -> bool:
        """Whether it shows an earlier time (``as_of``)."""
        return self._as_of is not None

    @property
    def pending(self) -> list[PendingDeclaration]:
        """The declarations in the YAML that it does not answer by yet. An earlier time has none."""
        return [] if self.is_past else find_pending(self.project, self.snapshot)

    @property
    def missing(self) -> list[MissingHours]:
        """The hours that the results of each metric with tables lack, as it is served. Raises TableError."""
        found = (read_missing_hours(tables, self._fetch) for tables in self.snapshot.served)
        return [missing for missing in found if missing]

    def missing_of(self, metric: str, declaration: str) -> MissingHours | None:
        """The missing hours of one declaration that has tables. Raises TableError."""
        (tables,) = (one for one in self.snapshot.metrics if one.name == f"{metric}_{declaration}")
        return read_missing_hours(tables, self._fetch)

    def missing_among(self, states: Collection[HourState]) -> list[MissingHours]:
        """Those of ``missing`` that are among ``states``, the hours that an answer uses. Raises TableError."""
        if all(one.state != "missing" for one in states):
            return []
        used = {(one.metric, one.hour) for one in states}
        among = [
            MissingHours(
                one.metric,
                tuple(hour for hour in one.closed if (one.metric, hour) in used),
                tuple(hour for hour in one.open if (one.metric, hour) in used),
            )
            for one in self.missing
        ]
        return [one for one in among if one.count]

    def naming_damage(self) -> AbstractContextManager[None]:
        """Within the block, DuckDB's errors become a TableError where a table is damaged, and a UsageError where the
        snapshot is too old.
        """
        expires = None if self.is_past else self.taken + timedelta(hours=KEPT_HOURS)
        return naming_damage(self.project, self.snapshot, expires, self._clock)

    @contextmanager
    def explaining(self, query: str) -> Iterator[None]:
        """Within the block, DuckDB's errors on ``query`` become a UsageError of one sentence, or a TableError where a
        table is damaged.

        Fetching computes: wrap that too.
        """
        try:
            with self.naming_damage():
                yield
        except duckdb.Error as error:
            raise UsageError(self._explain(error, query)) from None

    def attached(self, *names: str) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection itself, with these tables and views, such as ``hourline.progress``. Raises
        TableError.
        """
        with self.naming_damage():
            self._parts.attach(self._duckdb, set(names))
        return self._duckdb

    @property
    def database(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection itself, for reports of the serving layer's own. Attaches all tables and views. Raises
        TableError.
        """
        with self.naming_damage():
            self._parts.attach_all(self._duckdb)
        return self._duckdb

    def interrupt(self) -> None:
        """Stop what runs on this connection, from any thread."""
        self._duckdb.interrupt()

    def split(self, text: str) -> list[str]:
        """The statements in ``text``. Raises UsageError."""
        with self.explaining(text):
            return [statement.query for statement in self._duckdb.extract_statements(text)]

    def refresh(self) -> None:
        """Read the newest snapshot from now on. Raises TableError; then the snapshot stays as it is."""
        before = self._duckdb
        self._open()
        before.close()

    def twin(self) -> Self:
        """Another connection at the same snapshot, for another thread. It opens at once, since nothing is read
        again. Either may be closed first.
        """
        twin = copy(self)
        twin._duckdb = cursor_of(self._root)
        return twin

    def close(self) -> None:
        """Close the connection. The newest snapshot stays attached, for the next reader in this process. Another one is
        freed with the last connection on it.
        """
        self._duckdb.close()
        self._root = self._duckdb

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, duckdb.Error):
                with self.naming_damage():
                    raise error
        finally:
            self.close()

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        return self.sql(query).fetchall()

    def _explain(self, error: duckdb.Error, query: str) -> str:
        return explain_error(error, self._duckdb, query, self.project, self.snapshot, self.pending)

    def _check(self, query: str) -> None:
        statements = self._duckdb.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError(f"got {len(statements)} statement(s), want exactly one SELECT; the tables are read-only")

        self._parts.attach_for(self._duckdb, query)
        if self.snapshot.unreadable:
            named = find_names(self._duckdb, query)
            for view, damage in self.snapshot.unreadable.items():
                merged = {name for name, rollup in self.project.rollups.items() if rollup.base == view}
                if named.may_be_any or not named.tables.isdisjoint({view, *merged}):
                    raise TableError(f"'{view}' cannot be answered: {damage}")

    def _open(self) -> None:
        opened = open_snapshot(self.project, self._clock, self._as_of, degraded=self._degraded)
        self._duckdb = cursor_of(opened.database)
        # Only now, since a refresh that fails leaves them as they are.
        self.snapshot, self.taken = opened.snapshot, opened.taken
        self._root, self._parts = opened.database, opened.parts
        self.damage = list(opened.damage)
        """What a degraded connection lacks, or has read at an older version: one sentence for each table."""


def _written(column: str, kind: str, *, as_text: bool) -> str:
    """SQL for a column of the type ``kind`` in a file. NaN has no sign: that says nothing, and CSV would show it."""
    if kind in ("float", "double"):
        return f"CASE WHEN isnan({column}) THEN 'nan' ELSE {column} END"
    return bytes_as_text(column) if kind == "blob" and as_text else column
