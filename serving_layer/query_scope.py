"""The scope of a query: the hours of each metric that its answer uses, with their states. It is read from the query,
without computing it.

A condition on the columns of a view's time (``hour``, or ``window_start`` and ``window_end``) narrows the scope if it
stands in the WHERE of a SELECT that names the metric directly after FROM, alone or in inner joins. In a join by ``USING
(hour)``, a condition on ``hour`` is about all of its metrics. Anywhere else (around a subquery, in HAVING or ON, in an
outer join) it is ignored, and the scope has all hours of the metric. The scope of a window is its hours.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.hour_state import UNRELIABLE, WEAKEST_FIRST
from hourline_core.model.hours import hour_text
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.query_tree import Node, named_table, names_any_table, nodes_of, parse_query
from hourline_core.sql.windows import hours_of_windows_sql
from hourline_core.storage.retention import KEPT_HOURS

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

    @classmethod
    def of(cls, tables: MetricTables, base: str) -> "StateTables":
        """As attached by sql/tables.py. ``base`` has the tables of the metric."""
        metric = tables.metric
        windows = None if metric.window.is_hour else f"hourline.windows_{tables.name}"
        return cls(metric.name, base, f"hourline.hours_{tables.name}", metric.hourly_views, windows)

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
        rows = parse_query(database, f"SELECT * FROM {view.table} WHERE true AND true")
        rows["statements"][0]["node"]["where_clause"]["children"] += conditions
        ((sql,),) = database.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(rows)]).fetchall()
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


def refuse_weak(states: Collection[HourState]) -> None:
    """Raise UnreliableResultError if any of the hours is missing, blocked or incomplete."""
    weak: dict[str, list[str]] = {}
    for metric, hour, state in states:
        if state in UNRELIABLE:
            weak.setdefault(metric, []).append(f"{hour_text(hour)} {state}")
    if weak:
        raise UnreliableResultError(
            f"the answer would rest on hours that are not to be relied on: {_list_hours(weak)} "
            "(`hourline plan`, `hourline quality` and `hourline gaps` say what mends them, and without strict it is "
            "given all the same)"
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
            f"the answer rested on provisional rows that are no longer kept (they are for {KEPT_HOURS} hours): "
            f"{_list_hours(gone)}; "
            "hours that were final then can be asked for alone, and the view `hours` says which these are"
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
            narrowed = _conditions(node, views)
        if view := views.get(named_table(node) or ""):
            yield view, narrowed.get(id(node), [])
        if names_any_table(node):
            yield from ((view, []) for view in {view.of.metric: view for view in views.values()}.values())
        for part in node.values():
            yield from _find_views(part, views, narrowed)


def _conditions(select: Node, views: Mapping[str, _View]) -> dict[int, list[Node]]:
    """By table directly after FROM (its ``id``), the conditions of WHERE that are about its time only."""
    tables, joins = _joined(select["from_table"])
    if any(join["join_type"] != "INNER" or join["ref_type"] not in ("REGULAR", "CROSS") for join in joins):
        return {}
    conditions = list(_conjuncts(select["where_clause"]))
    narrowed = {}
    for table in tables:
        view = views.get(named_table(table) or "")
        if view is None or table["column_name_alias"]:
            continue
        # Unqualified, `hour` means the only table's, or that of all tables joined by it; otherwise DuckDB calls it
        # ambiguous. So it does with the columns of a window.
        alias = (table["alias"] or table["table_name"]).casefold()
        names = [name for time in view.times for name in ([time], [alias, time])]
        narrowed[id(table)] = [_on_time(condition) for condition in conditions if _is_about(condition, names)]
    return narrowed


def _joined(node: Node) -> tuple[list[Node], list[Node]]:
    """The tables of a FROM, and the joins between them."""
    if node["type"] == "JOIN":
        left, right = _joined(node["left"]), _joined(node["right"])
        return left[0] + right[0], [node, *left[1], *right[1]]
    return ([node] if node["type"] == "BASE_TABLE" else []), []


def _conjuncts(condition: Node | None) -> Iterator[Node]:
    if condition and condition["type"] == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from _conjuncts(part)
    elif condition:
        yield condition


def _is_about(condition: Node, names: list[list[str]]) -> bool:
    """Whether it depends on columns among ``names``, and on no others."""
    nodes = list(nodes_of(condition))
    columns = [[name.casefold() for name in node["column_names"]] for node in nodes if "column_names" in node]
    return (
        bool(columns)
        and all(column in names for column in columns)
        and not any(node.get("class") in ("SUBQUERY", "LAMBDA") for node in nodes)
    )


def _on_time(condition: Node) -> Node:
    """The condition, with its columns not qualified."""
    condition = deepcopy(condition)
    for node in nodes_of(condition):
        if "column_names" in node:
            node["column_names"] = node["column_names"][-1:]
    return condition
