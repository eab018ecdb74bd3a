"""What a query names, by the tree that DuckDB's own parser makes of it: text between quotes or in comments is no name."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

Node = dict[str, Any]
"""A part of a parsed query, as DuckDB's ``json_serialize_sql`` gives it."""

_NAMED_BY_TEXT = ("query", "query_table")
"""Table functions to which a table's name is a text."""


def parse_query(database: duckdb.DuckDBPyConnection, query: str) -> Node:
    """The tree of ``query``, one SELECT. Where DuckDB cannot give it as a tree, ``error`` in it is true."""
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
    """The name (folded) of the table, view or common table expression that ``node`` is; None: it is something else."""
    name = node.get("table_name")
    return folded(name.strip('"')) if name else None


def names_any_table(node: Node) -> bool:
    """Whether ``node`` may name any table: one by a text that is computed, or the tree is not known."""
    return bool(node.get("error")) or node.get("function_name") in _NAMED_BY_TEXT


def named_tables(database: duckdb.DuckDBPyConnection, query: str) -> set[str] | None:
    """The names (folded) of all tables, views and common table expressions in ``query``; None: it may name any."""
    nodes = list(nodes_of(parse_query(database, query)))
    if any(names_any_table(node) for node in nodes):
        return None
    return {name for node in nodes if (name := named_table(node))}


def folded(name: str) -> str:
    """As DuckDB compares names: only ASCII letters are alike in both cases, so that no other letter passes for one."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)
