"""The names in a query, by the tree of DuckDB's own parser. Text in quotes or comments is no name."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

Node = dict[str, Any]
"""A part of a parsed query, as DuckDB's ``json_serialize_sql`` gives it."""

_NAMED_BY_TEXT = ("query", "query_table")
"""Table functions that take a table's name as text."""


_WITHOUT_TABLES = ("range", "generate_series", "unnest")
"""Table functions that read no table."""


def parse_query(database: duckdb.DuckDBPyConnection, query: str) -> Node:
    """The tree of ``query``, one SELECT. If DuckDB cannot give it as a tree, its ``error`` is true."""
    ((text,),) = database.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    tree: Node = json.loads(text)
    return tree


def nodes_of(node: Any) -> Iterator[Node]:
    """All parts of a tree, from its root on."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes_of(part)


def named_table(node: Node) -> str | None:
    """The name (folded) of the table, view or common table expression at ``node``. None: it is something else."""
    name = node.get("table_name")
    return fold_case(name.strip('"')) if name else None


def names_any_table(node: Node) -> bool:
    """Whether ``node`` may name any table: by a computed text, or because the tree is unknown."""
    return bool(node.get("error")) or node.get("function_name") in _NAMED_BY_TEXT


def named_tables(database: duckdb.DuckDBPyConnection, query: str) -> set[str] | None:
    """The names (folded) of all tables, views and common table expressions in ``query``. None: it may name any."""
    nodes = list(nodes_of(parse_query(database, query)))
    if any(names_any_table(node) for node in nodes):
        return None
    return {name for node in nodes if (name := named_table(node))}


def named_views(database: duckdb.DuckDBPyConnection, query: str) -> set[str] | None:
    """The same, if ``query`` names nothing but views, so it needs no others. None: it may list or read anything."""
    nodes = list(nodes_of(parse_query(database, query)))
    names = {name for node in nodes if (name := named_table(node))}
    plain = not any(names_any_table(node) or _names_more_than_views(node) for node in nodes)
    return names if plain else None


def _names_more_than_views(node: Node) -> bool:
    """Whether ``node`` names a schema, is a table function that may list tables, or shows them."""
    if node.get("type") == "TABLE_FUNCTION":
        return (node.get("function") or {}).get("function_name") not in _WITHOUT_TABLES
    return bool(node.get("schema_name")) or str(node.get("show_type", "")).startswith("SHOW")


def fold_case(name: str) -> str:
    """Fold a name as DuckDB does: only ASCII letters are equal in both cases, so no other letter is taken for one."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)
