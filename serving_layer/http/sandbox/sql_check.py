"""Checks free SQL on the tree of DuckDB's own parser: it must be one SELECT, of nothing but the views and the words
in sql_vocabulary.py.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NoReturn

import duckdb

from hourline_core.errors import did_you_mean
from hourline_core.sql.query_tree import fold_case
from serving_layer.http.sandbox.sql_vocabulary import EXPRESSIONS, FUNCTIONS, NAMED_TYPES, NODES, TABLE_FUNCTIONS, TYPES

_IN_WORDS = {
    "SHOW_REF": "DESCRIBE, SHOW or SUMMARIZE",
    "PARAMETER": "a parameter",
}
_SHOWN = 60


class RefusedError(Exception):
    """The query must not be run. ``str(error)`` names the part of it."""


@dataclass
class Reads:
    """What a query reads."""

    views: set[str] = field(default_factory=set)
    columns: set[str] | None = field(default_factory=set)
    """Every name in it that may be a column, in lower case. None: all columns may be read."""


def check(database: duckdb.DuckDBPyConnection, sql: str, views: Collection[str]) -> Reads:
    """What ``sql`` reads of ``views``. Raises RefusedError, and DuckDB's errors where it is no SQL; parses only, on any
    connection.

    The parser is DuckDB's, and a query can be made to crash it: run this where that does no harm.
    """
    if "\0" in sql:
        _refuse("a NUL byte")
    try:
        sql.encode()
    except UnicodeEncodeError:
        _refuse("text that is no Unicode")
    statements = database.extract_statements(sql)
    kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
    if kinds != ["SELECT"]:
        raise RefusedError(
            f"got {' and '.join(kinds[:3]) or 'no statement'}{' …' if len(kinds) > 3 else ''}, want exactly one SELECT"
        )
    ((text,),) = database.execute(
        "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true, skip_default := true)", [sql]
    ).fetchall()
    try:
        tree = json.loads(text)
        if tree["error"]:  # a PIVOT that first has to look which columns there are, say, is several statements
            raise RefusedError(f"the statement is no plain SELECT: {tree['error_message']}")
        walk = _Walk(views)
        walk.visit(tree["statements"], frozenset())
    except RecursionError:
        _refuse("expressions that are nested too deeply")
    if walk.whole_rows & walk.last_mentions:
        walk.reads.columns = None
    return walk.reads


class _Walk:
    """Walks through all parts of a query, and refuses whatever it does not know."""

    def __init__(self, views: Collection[str]) -> None:
        self.reads = Reads()
        self.whole_rows: set[str] = set()
        """Names of tables in the query. As a column, such a name means the whole row."""
        self.last_mentions: set[str] = set()
        self._views = {fold_case(view): view for view in views}

    def visit(self, node: Any, named: frozenset[str]) -> None:
        """Check ``node``, from which the common table expressions ``named`` can be seen."""
        if isinstance(node, list):
            for part in node:
                self.visit(part, named)
        elif isinstance(node, dict):
            for ctes in node.pop("cte_map", {}).get("map", []):
                # It sees those before it, and itself only in the second part of a recursive one.
                self.visit(ctes["value"], named)
                named |= {fold_case(ctes["key"])}
            self._check(node, named)
            inner = named | {fold_case(node["cte_name"])} if node.get("type") == "RECURSIVE_CTE_NODE" else named
            for key, part in node.items():
                self.visit(part, inner if key == "right" else named)

    def _check(self, node: dict[str, Any], named: frozenset[str]) -> None:
        kind = node.get("type")
        if "class" in node:
            if node["class"] not in EXPRESSIONS:
                _refuse(_IN_WORDS.get(node["class"], f"an expression of the kind {node['class']}"))
        elif isinstance(kind, str) and kind not in NODES:
            _refuse(_IN_WORDS.get(kind, f"a part of the kind {kind}"))
        if "at_clause" in node:
            _refuse("AT, another version of a table")
        if "id" in node:
            self._check_type(node)
        if "function_name" in node and fold_case(node["function_name"]) not in FUNCTIONS:
            _refuse(f"the function {_quote(node['function_name'])}")
        if (
            kind == "TABLE_FUNCTION"
            and "function" in node
            and fold_case(name := node["function"].get("function_name", "")) not in TABLE_FUNCTIONS
        ):
            _refuse(f"the table function {_quote(name)} (allowed are {', '.join(sorted(TABLE_FUNCTIONS))})")
        if kind == "BASE_TABLE":
            self._check_table(node, named)
        self._note_columns(node)

    def _check_table(self, node: dict[str, Any], named: frozenset[str]) -> None:
        name = node.get("table_name", "")
        path = [node[key] for key in ("catalog_name", "schema_name") if key in node]
        if path:
            _refuse(f"the table {_quote('.'.join([*path, name]))}: only the views can be named, without a schema")
        plain = fold_case(name)
        if plain not in named:
            if plain not in self._views:
                raise RefusedError(
                    f"there is no view {_quote(name)}{did_you_mean(name[:_SHOWN], self._views.values())}; nothing "
                    "else can be read"
                )
            self.reads.views.add(self._views[plain])
        self.whole_rows |= {plain, fold_case(node.get("alias", name))}

    @staticmethod
    def _check_type(node: dict[str, Any]) -> None:
        info = node.get("type_info") or {}
        if node["id"] == "UNBOUND":
            if fold_case(info.get("name", "")) not in NAMED_TYPES or "schema" in info or "catalog" in info:
                _refuse(f"the type {_quote(info.get('name', ''))}")
        elif node["id"] not in TYPES:
            _refuse(f"the type {_quote(str(node['id']))}")

    def _note_columns(self, node: dict[str, Any]) -> None:
        by_position = node.get("class") in ("STAR", "POSITIONAL_REFERENCE") or (
            node.get("type") == "BASE_TABLE" and "column_name_alias" in node
        )
        if by_position or node.get("type") == "PIVOT" or node.get("ref_type") == "NATURAL":
            self.reads.columns = None
        names = [fold_case(name) for name in [*node.get("column_names", []), *node.get("using_columns", [])]]
        if names:
            self.last_mentions.add(names[-1])
        if self.reads.columns is not None:
            self.reads.columns |= set(names)


def _refuse(part: str) -> NoReturn:
    raise RefusedError(f"free SQL may not contain {part}")


def _quote(name: str) -> str:
    return f"'{name if len(name) <= _SHOWN else name[:_SHOWN] + '…'}'"
