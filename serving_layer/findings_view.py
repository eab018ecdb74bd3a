"""The view ``findings``. Each query looks again, by a function in Python: findings depend on the time and workspace."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from weakref import ref

import duckdb

from hourline_core.findings.look import look
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import FINDING_SCHEMA, read_findings, to_rows, with_openings
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.sql.attach_on_demand import Part
from hourline_core.sql.database import cursor_of
from hourline_core.sql.literals import identifier, literal

_FUNCTION = "hourline_findings"
_TYPES = {field.name: "TIMESTAMPTZ" if field.type == TIMESTAMP else "VARCHAR" for field in FINDING_SCHEMA}


def find_open(
    project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, now: datetime
) -> list[Finding]:
    """What is found at ``now`` (UTC), with its openings: findings that fail first. ``database`` has the tables of
    ``snapshot``. Raises duckdb.Error.
    """
    return with_openings(look(project, database, snapshot, now), read_findings(project, now))


def install_findings(database: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot, clock: Clock) -> None:
    """Make the function available on ``database`` that gives the rows of the view: what is found now, then the recorded
    findings that are closed. The view's part attaches the tables that it reads.
    """
    whole = ref(database)  # It holds the function, and would never be freed.

    def find() -> list[dict[str, Any]]:
        held, now = whole(), clock()
        assert held is not None, "a query runs on it"
        with cursor_of(held) as cursor:
            found = find_open(project, cursor, snapshot, now)
        recorded = read_findings(project, now - project.settings.batch.reports_kept)
        return to_rows([*found, *(one for one in recorded if one.closed)])

    fields = ", ".join(f"{identifier(name)} {kind}" for name, kind in _TYPES.items())
    database.create_function(_FUNCTION, find, [], f"STRUCT({fields})[]", side_effects=True)


def findings_part(tables: Iterable[Part], functions: bool = True) -> Part:
    """The part that makes the view, on ``tables``. Without ``functions``, it has what is found while it is made."""

    def create(connection: duckdb.DuckDBPyConnection) -> list[str]:
        rows = f"SELECT unnest(found, recursive := true) FROM (SELECT {_FUNCTION}() AS found)"
        if not functions:
            found = connection.execute(rows).fetchall()
            none = ", ".join(f"NULL::{kind} AS {identifier(name)}" for name, kind in _TYPES.items())
            listed = [f"SELECT {', '.join('NULL' if one is None else literal(one) for one in row)}" for row in found]
            rows = " UNION ALL ".join([f"SELECT {none} WHERE false", *listed])
        return [f"CREATE VIEW findings AS {rows}"]

    return Part(("findings",), tuple(name for part in tables for name in part.names), create)
