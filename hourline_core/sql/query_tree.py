"""The names in a query, by the tree of DuckDB's own parser. Text in quotes or comments is no name."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

Node = dict[str, Any]
"""A part of a parsed query, as DuckDB's ``json_serialize_sql`` gives it."""

_NO_TREE: Node = {"error": True}
_DEEPEST = 400
"""The maximum depth of a tree. What goes through it calls itself at each level, and Python allows 1,000 calls."""

_NAMED_BY_TEXT = ("query", "query_table")
"""Table functions that take a table's name as text."""

_WITHOUT_TABLES = ("range", "generate_series", "unnest")
"""Table functions that read no table."""

_SCHEMA = "hourline"
"""Hourline's own schema."""


@dataclass(frozen=True)
class Names:
    """What a query names. All names are folded."""

    tables: frozenset[str]
    """The names of tables, views and common table expressions that it reads. Those in Hourline's own schema are such as
    ``hourline.metric_hours``.
    """
    expressions: frozenset[str]
    """The names of the common table expressions that it defines."""
    may_be_any: bool
    """Whether it may name any table: by a computed text, or because DuckDB gives no tree of it."""
    may_list: bool
    """Whether it may list or read tables that it does not name as a view: it names another schema, uses a table
    function, or shows tables.
    """


def parse_query(database: duckdb.DuckDBPyConnection, query: str) -> Node:
    """The tree of ``query``, one SELECT. Its ``error`` is true if DuckDB cannot give it as a tree, or if it is too deep
    for Python.
    """
    ((text,),) = database.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    try:
        tree: Node = json.loads(text)
    except RecursionError:
        return _NO_TREE
    return _NO_TREE if _is_deep(tree) else tree


def _is_deep(tree: Node) -> bool:
    level: list[Any] = [tree]
    for _ in range(_DEEPEST):
        level = [part for node in level for part in _parts_of(node)]
    return bool(level)


def query_of(database: duckdb.DuckDBPyConnection, tree: Node) -> str:
    """The query of a tree that ``parse_query`` gave."""
    ((text,),) = database.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()
    return str(text)


def nodes_of(node: Any) -> Iterator[Node]:
    """All parts of a tree, from its root on."""
    if isinstance(node, dict):
        yield node
    for part in _parts_of(node):
        yield from nodes_of(part)


def _parts_of(node: Any) -> Collection[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def named_table(node: Node) -> str | None:
    """The name (folded) of the table, view or common table expression at ``node``. None: it is something else."""
    name = node.get("table_name")
    return fold_case(name.strip('"')) if name else None


def names_any_table(node: Node) -> bool:
    """Whether ``node`` may name any table: by a computed text, or because the tree is unknown."""
    return bool(node.get("error")) or node.get("function_name") in _NAMED_BY_TEXT


def find_names(database: duckdb.DuckDBPyConnection, query: str) -> Names:
    """What the tree of ``query``, one SELECT, says about the tables that it reads."""
    nodes = list(nodes_of(parse_query(database, query)))
    return Names(
        frozenset(f"{_SCHEMA}.{name}" if _is_own(node) else name for node in nodes if (name := named_table(node))),
        defined_expressions(nodes),
        any(names_any_table(node) for node in nodes),
        any(_may_list_tables(node) for node in nodes),
    )


def defined_expressions(nodes: Iterable[Node]) -> frozenset[str]:
    """The names (folded) of the common table expressions that ``nodes`` define."""
    return frozenset(fold_case(known["key"]) for node in nodes for known in node.get("cte_map", {}).get("map", []))


def _may_list_tables(node: Node) -> bool:
    """Whether ``node`` names another schema, is a table function that may list tables, or shows them."""
    if node.get("type") == "TABLE_FUNCTION":
        return (node.get("function") or {}).get("function_name") not in _WITHOUT_TABLES
    names_other = bool(node.get("schema_name")) and not _is_own(node)
    return names_other or str(node.get("show_type", "")).startswith("SHOW")


def _is_own(node: Node) -> bool:
    """Whether ``node`` names a table in Hourline's own schema."""
    return node.get("schema_name") == _SCHEMA and not node.get("catalog_name")


def fold_case(name: str) -> str:
    """Fold a name as DuckDB does: only ASCII letters are equal in both cases, so no other letter is taken for one."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)
