"""Explains DuckDB's errors in one sentence, with near names of the project."""

import re

import duckdb

from hourline_core.errors import did_you_mean
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.sql.query_tree import find_names

_VIEWS = ("hours", "late_events", "drift", "quality", "publications")


def explain_error(
    error: duckdb.Error, database: duckdb.DuckDBPyConnection, query: str, project: Project, snapshot: Snapshot
) -> str:
    """The explanation for ``query``, one SELECT that ``database`` has refused."""
    text = str(error)
    if table := re.search(r"Table with name (\S+) does not exist", text):
        there = {tables.metric.name for tables in snapshot.served}
        if table[1] in project.metrics and table[1] not in there:
            return without_tables(table[1])
        records = [f"{kind}_{source}" for source in snapshot.progress for kind in ("events", "rejected")]
        return f"there is no view '{table[1]}'{did_you_mean(table[1], [*there, *_VIEWS, *records])}"
    if column := re.search(r'Referenced column "([^"]+)" not found.*?Candidate bindings: ([^\n]*)', text, re.DOTALL):
        # DuckDB offers only the nearest few names. A user who looks for a measure wants to see all.
        named = find_names(database, query).tables
        metrics = [tables.metric for tables in snapshot.served if tables.metric.name in named]
        candidates = {name for metric in metrics for name in ("hour", *metric.dimensions, *metric.measures, "state")}
        candidates |= set(re.findall(r"[\"']([^\"']+)[\"']", column[2]))
        return f"there is no column '{column[1]}'{did_you_mean(column[1], candidates)}"
    if of_function := re.search(r"executing the UDF: \w+: ([^\n]*)", text):  # a function of Hourline's
        return f"the query cannot be answered: {of_function[1]}"
    kind, _, rest = text.partition(": ")
    return f"the query cannot be answered: {kind}: {rest.strip().partition(chr(10))[0]}"


def without_tables(metric: str) -> str:
    """The explanation for a declared metric that no speed layer has started with yet."""
    return f"metric '{metric}' has no tables yet; `hourline speed` (or `hourline up`) makes them when it starts"
