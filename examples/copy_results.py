"""Keeps a copy of results in a DuckDB file or in PostgreSQL, by `changes`:

    python -m examples.copy_results PROJECT copy.duckdb
    python -m examples.copy_results PROJECT postgresql://user@host/database

The token of the last result is in the copy, and is written in the same transaction. So a run that is killed changes
nothing, and the next one begins where the last whole one ended. There is no look-back window.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import duckdb

import hourline

EVERYTHING = "p0"
"""The token of a result without any rows."""

TABLES = """
    CREATE TABLE IF NOT EXISTS results (
        metric TEXT, window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, dimensions TEXT, measure TEXT, value TEXT,
        PRIMARY KEY (metric, window_start, window_end, dimensions, measure)
    );
    CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY, token TEXT)"""
REPLACED = (
    "DELETE FROM results WHERE metric = %s AND (%s::TIMESTAMPTZ IS NULL OR window_start = %s AND window_end = %s)"
)
DELETED = "DELETE FROM results WHERE (metric, window_start, window_end, dimensions, measure) = (%s, %s, %s, %s, %s)"
WRITTEN = """
    INSERT INTO results VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (metric, window_start, window_end, dimensions, measure) DO UPDATE SET value = excluded.value"""
REACHED = "INSERT INTO position VALUES (1, %s) ON CONFLICT (one) DO UPDATE SET token = excluded.token"


class Target(Protocol):
    """A connection to the database of the copy, in a transaction."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement, in which ``%s`` stands for a value. The result has ``fetchone()``."""

    def commit(self) -> object:
        """End the transaction."""


class DuckdbTarget:
    """A DuckDB file."""

    def __init__(self, file: str) -> None:
        self._connection = duckdb.connect(file)
        self._connection.execute("BEGIN")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """As ``Target`` says."""
        return self._connection.execute(statement.replace("%s", "?"), list(values))

    def commit(self) -> object:
        """As ``Target`` says."""
        return self._connection.commit()


def connect(target: str) -> Target:
    """The database of the copy: a PostgreSQL URL, or a DuckDB file, which is made if it is not there."""
    if not target.startswith(("postgresql://", "postgres://")):
        return DuckdbTarget(target)
    import psycopg

    connection: Target = psycopg.connect(target)
    return connection


def copy_results(project: str, target: Target) -> tuple[str, int]:
    """Apply what has changed since the last run, in one transaction. Returns the token of the result that the copy has
    now, and the number of changes. Raises UsageError when the last run was so long ago that its result is no longer
    kept.
    """
    for statement in TABLES.split(";"):
        target.execute(statement)
    reached = target.execute("SELECT token FROM position").fetchone()
    with hourline.connect(project, since=reached[0] if reached else EVERYTHING) as results:
        token, changes = results.token, results.sql("FROM changes").to_arrow_table().to_pylist()
    for one in changes:
        window = [one["metric"], one["window_start"], one["window_end"]]
        key = [*window, json.dumps(dict(one["dimensions"] or [])), one["measure"]]
        match one["change"]:
            case "replace":
                target.execute(REPLACED, [one["metric"], one["window_start"], *window[1:]])
            case "delete":
                target.execute(DELETED, key)
            case _:
                target.execute(WRITTEN, [*key, one["after"]])
    target.execute(REACHED, [token])
    target.commit()
    return token, len(changes)


if __name__ == "__main__":
    project, target = sys.argv[1:]
    token, count = copy_results(project, connect(target))
    sys.stdout.write(f"{count:,} change(s), as of {token}\n")
