"""The conditions of a query on the time of a metric's view, by the query's syntax tree.

The time of a view is ``hour``, or ``window_start`` and ``window_end``. A condition on it counts if it stands in the
WHERE of a SELECT that names the view directly after FROM, alone or in inner joins. In a join by ``USING (hour)``, a
condition on ``hour`` is about all of its metrics. Anywhere else (around a subquery, in HAVING or ON, in an outer join)
it does not count.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy

from hourline_core.sql.query_tree import Node, named_table, nodes_of


def find_time_conditions(select: Node, times: Mapping[str, Collection[str]]) -> Iterator[tuple[Node, list[Node]]]:
    """Each table directly after FROM that is one of the views in ``times``, with the conditions of WHERE on its time
    alone, not qualified. ``times`` has the columns of the time of each view.
    """
    tables, joins = _joined(select["from_table"])
    if any(join["join_type"] != "INNER" or join["ref_type"] not in ("REGULAR", "CROSS") for join in joins):
        return
    conditions = list(_conjuncts(select["where_clause"]))
    for table in tables:
        columns = times.get(named_table(table) or "")
        if columns is None or table["column_name_alias"]:
            continue
        # Unqualified, `hour` means the only table's, or that of all tables joined by it; otherwise DuckDB calls it
        # ambiguous. So it does with the columns of a window.
        alias = (table["alias"] or table["table_name"]).casefold()
        names = [name for column in columns for name in ([column], [alias, column])]
        yield table, [_unqualified(condition) for condition in conditions if _is_about(condition, names)]


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


def _unqualified(condition: Node) -> Node:
    """The condition, with its columns not qualified."""
    condition = deepcopy(condition)
    for node in nodes_of(condition):
        if "column_names" in node:
            node["column_names"] = node["column_names"][-1:]
    return condition
