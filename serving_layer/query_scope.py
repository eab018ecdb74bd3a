"""The scope of a query: the hours of each metric that its answer uses, with their states. It is read from the query,
without computing it.

The conditions on the time of a view narrow the scope (see time_conditions.py). Without any, it has all hours of the
metric. The scope of a window is its hours.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.missing_hours import MissingHours
from hourline_core.model.hour_state import UNRELIABLE, WEAKEST_FIRST
from hourline_core.model.hours import hour_text
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.query_tree import Node, named_table, names_any_table, parse_query, query_of
from hourline_core.sql.session_windows import listed_sessions_sql
from hourline_core.sql.windows import hours_of_windows_sql
from hourline_core.storage.version_retention import KEPT_HOURS
from serving_layer.session_starts import find_starts
from serving_layer.time_conditions import find_time_conditions

_SHOWN = 3


class HourState(NamedTuple):
    """One hour (UTC) of one metric that an answer uses."""

    metric: str
    hour: datetime
    state: str


class StateTables(NamedTuple):
    """Where the states of a metric are."""

    name: str
    metric: str
    """The metric whose hours they are: itself, or of a rollup the metric that it merges."""
    hours: str
    """The table with the states of its hours, as SQL."""
    hourly_views: Collection[str]
    """Its views with rows by the hour."""
    windows: str | None = None
    """The table with the states of its windows, as SQL; the view with rows by the window is named like the metric.
    None: all of its views are by the hour.
    """
    sessions: MetricTables | None = None
    """What its windows are found in, if they are sessions."""

    @classmethod
    def of(cls, tables: MetricTables, base: str) -> "StateTables":
        """As attached by sql/tables.py. ``base`` has the tables of the metric."""
        metric = tables.metric
        windows = None if metric.window.is_hour else f"hourline.windows_{tables.name}"
        sessions = tables if metric.session else None
        return cls(metric.name, base, f"hourline.hours_{tables.name}", metric.hourly_views, windows, sessions)

    @property
    def views(self) -> "dict[str, _View]":
        """By name."""
        by_hour = {view: _View(self, ("hour",), self.hours) for view in self.hourly_views}
        return by_hour if self.windows is None else by_hour | {self.name: _View(self, WINDOW_COLUMNS, self.windows)}


class _View(NamedTuple):
    """A view of a metric: the columns of its time, and the table that has a row for each."""

    of: StateTables
    times: tuple[str, ...]
    table: str

    def table_of(self, database: duckdb.DuckDBPyConnection, conditions: Collection[Node]) -> str:
        """The table, as SQL. Of sessions, a query of those alone that ``conditions`` on their time allow."""
        if self.of.sessions is None or self.table != self.of.windows:
            return self.table
        return f"({listed_sessions_sql(self.of.sessions, find_starts(database, conditions, self.of.sessions))})"


def find_hour_states(
    database: duckdb.DuckDBPyConnection, query: str, metrics: Iterable[StateTables]
) -> list[HourState]:
    """Every hour of ``metrics`` that the answer to ``query`` rests on, by metric and hour. ``query`` is one SELECT;
    raises DuckDB's errors on it.
    """
    tree = parse_query(database, query)
    views = {name: view for metric in metrics for name, view in metric.views.items()}
    found = set()
    for view, conditions in _find_views(tree, views, {}):
        rows = parse_query(database, "SELECT * FROM _times WHERE true AND true")
        rows["statements"][0]["node"]["where_clause"]["children"] += conditions
        sql = f"WITH _times AS (FROM {view.table_of(database, conditions)}) {query_of(database, rows)}"
        by_hour = view.table == view.of.hours
        states = f"SELECT hour, state FROM ({sql})" if by_hour else hours_of_windows_sql(view.of.hours, sql)
        found |= {HourState(view.of.metric, *row) for row in database.execute(states).fetchall()}
    return sorted(found)


def summarize_states(states: Collection[HourState]) -> str:
    """``74 final, 1 revised``: the number of hours in each state. An hour of several metrics is in the weakest of
    their states.
    """
    weakest: dict[datetime, str] = {}
    for _, hour, state in states:
        weakest[hour] = min(weakest.get(hour, state), state, key=WEAKEST_FIRST.index)
    counts = Counter(weakest.values())
    return ", ".join(f"{counts[state]:,} {state}" for state in reversed(WEAKEST_FIRST) if counts[state])


def refuse_weak(states: Collection[HourState], missing: Iterable[MissingHours]) -> None:
    """Raise UnreliableResultError if any of the hours is missing, blocked or incomplete. ``missing`` are those that are
    missing.
    """
    weak: dict[str, list[str]] = {}
    for metric, hour, state in states:
        if state in UNRELIABLE:
            weak.setdefault(metric, []).append(f"{hour_text(hour)} {state}")
    if weak:
        found = {one.state for one in states}
        remedies = [words for one in missing for words in one.in_words()]
        remedies += ["`hourline quality --blocked` says why hours are blocked"] if "blocked" in found else []
        remedies += ["`hourline gaps` says what incomplete hours lack"] if "incomplete" in found else []
        raise UnreliableResultError(
            f"the result would include unreliable hours: {_list_hours(weak)}; "
            f"{''.join(f'{remedy}; ' for remedy in remedies)}without strict, the query runs"
        )


def refuse_forgotten(states: Collection[HourState], forgotten: Collection[str]) -> None:
    """Raise UsageError if any of the hours is missing of a metric that is ``forgotten``: without it the answer would
    differ from the earlier one.
    """
    gone: dict[str, list[str]] = {}
    for metric, hour, state in states:
        if state == "missing" and metric in forgotten:
            gone.setdefault(metric, []).append(hour_text(hour))
    if gone:
        raise UsageError(
            f"the result included provisional rows, which are only kept for {KEPT_HOURS} hours: {_list_hours(gone)}; "
            "query only hours that were final at that time; the view `hours` lists them"
        )


def _list_hours(hours_of: Mapping[str, list[str]]) -> str:
    return "; ".join(
        f"of '{metric}' {', '.join(hours[:_SHOWN])}{_more(len(hours) - _SHOWN)}" for metric, hours in hours_of.items()
    )


def _more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _find_views(
    node: Any, views: Mapping[str, _View], narrowed: Mapping[int, list[Node]]
) -> Iterator[tuple[_View, list[Node]]]:
    """Each occurrence of a metric's view in the query, with the conditions on its time. ``narrowed`` has those of the
    inner tables.
    """
    if isinstance(node, list):
        for part in node:
            yield from _find_views(part, views, narrowed)
    elif isinstance(node, dict) and node.get("show_type") != "DESCRIBE":  # of which only the columns are asked
        if node.get("type") == "SELECT_NODE":
            times = {name: view.times for name, view in views.items()}
            narrowed = {id(table): conditions for table, conditions in find_time_conditions(node, times)}
        if view := views.get(named_table(node) or ""):
            yield view, narrowed.get(id(node), [])
        if names_any_table(node):
            yield from ((view, []) for view in {view.of.metric: view for view in views.values()}.values())
        for part in node.values():
            yield from _find_views(part, views, narrowed)
