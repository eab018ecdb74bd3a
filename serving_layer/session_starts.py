"""The bounds that a query gives for the start of sessions, so that it reads no more hours than these sessions need.

A condition gives a bound if it compares ``window_start`` or ``window_end`` with a time that is the same in all rows, by
``=``, ``<``, ``<=``, ``>``, ``>=`` or BETWEEN. DuckDB computes that time within the query. Any other condition gives
none, and DuckDB applies it as it stands.

Free SQL over HTTP is not narrowed: its text is parsed in the sandbox alone, where it does no harm.
"""

import re
from collections.abc import Iterable, Iterator

import duckdb

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import stored_types
from hourline_core.sql.query_tree import Node, defined_expressions, named_table, nodes_of, parse_query, query_of
from hourline_core.sql.session_windows import Starts, longest_sql, session_rows_sql
from hourline_core.sql.windows import finished_windows_sql
from serving_layer.time_conditions import find_time_conditions

_FLIPPED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
"""By comparison, the one with its sides exchanged."""
_SAME_IN_ALL_ROWS = ("+", "-", "date_trunc", "now", "timezone", "to_", "today", "trunc")
"""How the names of functions begin that have one result within a query. ``to_…`` make intervals."""
_WIDE_SPACE = re.compile(r"[\u00a0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]")
"""What DuckDB's parser makes an ordinary space of, before it counts the bytes to the place of a table."""


def narrow_sessions(database: duckdb.DuckDBPyConnection, query: str, metrics: Iterable[MetricTables]) -> str:
    """``query``, one SELECT over the views of ``metrics``, with the same answer from fewer hours: where its conditions
    bound the start of sessions, their view gives way to a query in brackets.
    """
    sessions = {tables.metric.name: tables for tables in metrics if tables.metric.session}
    if not sessions or _WIDE_SPACE.search(query):
        return query
    tree = parse_query(database, query)
    nodes = list(nodes_of(tree))
    for name in defined_expressions(nodes):
        sessions.pop(name, None)
    if any(len(node.get("column_names", ())) > 2 for node in nodes):  # A query in brackets has no schema.
        return query
    times = dict.fromkeys(sessions, WINDOW_COLUMNS)
    selects = [node for node in nodes if node.get("type") == "SELECT_NODE" and node["sample"] is None]
    found = [one for select in selects for one in find_time_conditions(select, times)]
    text = query.encode()
    for table, conditions in sorted(found, key=lambda one: one[0]["query_location"], reverse=True):
        tables, place = sessions[named_table(table) or ""], table["query_location"]
        starts = find_starts(database, conditions, tables)
        length = _name_at(text[place:], table)
        if starts and length and table["sample"] is None:
            alias = "" if table["alias"] else f" AS {identifier(table['table_name'])}"
            text = (
                text[:place] + f"({_sessions_sql(database, tables, starts)}){alias}".encode() + text[place + length :]
            )
    return text.decode()


def find_starts(database: duckdb.DuckDBPyConnection, conditions: Iterable[Node], tables: MetricTables) -> Starts | None:
    """The bounds that the ``conditions`` on the time of sessions give for their start. None: they give none."""
    first, last = [], []
    for column, comparison, moment in (one for condition in conditions for one in _comparisons(condition)):
        bound = f"({_expression_of(database, moment)})::TIMESTAMPTZ"
        if comparison not in ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO"):
            first.append(bound if column == "window_start" else f"{bound} - {longest_sql(tables)}")
        if comparison not in ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO"):
            last.append(bound)
    return Starts.between(first, last) if first or last else None


def _comparisons(condition: Node) -> Iterator[tuple[str, str, Node]]:
    """Each comparison in a condition of a column with a time that is the same in all rows: the column, the comparison,
    and the time.
    """
    if condition["type"] == "COMPARE_BETWEEN":
        sides = [
            (condition["input"], "COMPARE_GREATERTHANOREQUALTO", condition["lower"]),
            (condition["input"], "COMPARE_LESSTHANOREQUALTO", condition["upper"]),
        ]
    elif condition["type"] in _FLIPPED:
        sides = [(condition["left"], condition["type"], condition["right"])]
    else:
        return
    for left, comparison, right in sides:
        if left["type"] == "COLUMN_REF" and _is_same_in_all_rows(right):
            yield left["column_names"][0].lower(), comparison, right
        elif right["type"] == "COLUMN_REF" and _is_same_in_all_rows(left):
            yield right["column_names"][0].lower(), _FLIPPED[comparison], left


def _is_same_in_all_rows(expression: Node) -> bool:
    return all(
        part["class"] in ("CONSTANT", "CAST")
        or (part["class"] == "FUNCTION" and part["function_name"].startswith(_SAME_IN_ALL_ROWS))
        for part in nodes_of(expression)
        if "class" in part
    )


def _expression_of(database: duckdb.DuckDBPyConnection, expression: Node) -> str:
    """The SQL of an expression."""
    tree = parse_query(database, "SELECT true")
    tree["statements"][0]["node"]["select_list"] = [expression]
    return query_of(database, tree).removeprefix("SELECT ")


def _name_at(text: bytes, table: Node) -> int:
    """The length of the name of ``table`` with which ``text`` begins. 0: a schema comes first."""
    name = table["table_name"]
    written = (identifier(name) if text.startswith(b'"') else name).encode()
    return len(written) if text[: len(written)] == written else 0


def _sessions_sql(database: duckdb.DuckDBPyConnection, tables: MetricTables, starts: Starts) -> str:
    """The rows of the view of ``tables`` that are of sessions with these starts."""
    rows = f"FROM ({session_rows_sql(tables, starts)})"
    return finished_windows_sql(tables.metric, stored_types(database, tables), rows)
