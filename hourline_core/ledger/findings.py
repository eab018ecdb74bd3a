"""The table of findings: what a person should know of a source, over a span of arrival, and of the speed layer.

What is found *now* is computed by whoever looks (``hourline_core.findings``). This table keeps when it was found first,
and when it was gone. The batch layer's runs are its one writer. At most one finding of a kind is open of a source: it
is grouped with its like.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.ledger.columns import Column, Columns, schema_of
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.model import Project
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.version_retention import PUBLISHED

FINDING_COLUMNS: Columns = {
    "kind": Column(pa.string(), "What kind of finding it is: the key of its bound in the declaration."),
    "source": Column(pa.string(), "The name of the source. Null: it is about the speed layer."),
    "severity": Column(pa.string(), "`fail` or `warn`."),
    "opened": Column(TIMESTAMP, "When a run of the batch layer found it first."),
    "closed": Column(TIMESTAMP, "When a run found that its cause had gone. Null: it is open."),
    "first": Column(TIMESTAMP, "The beginning of the span of arrival that it is about."),
    "last": Column(TIMESTAMP, "The end of that span."),
    "sentence": Column(pa.string(), "What was found, in one sentence."),
    "numbers": Column(pa.string(), "The numbers in it, as JSON."),
    "example": Column(pa.string(), "The address of a record: `topic[partition]@offset`. Null: it has no example."),
    "remedy": Column(pa.string(), "The command to run, or the line of the declaration to change."),
}
FINDING_SCHEMA = schema_of(FINDING_COLUMNS)
RECORDED_COLUMNS: Columns = {
    **FINDING_COLUMNS,
    "opened_in": Column(pa.int64(), "The version of this table that it opened with. Null: an older Hourline wrote it."),
    "closed_in": Column(pa.int64(), "The version of this table that it closed with. Null: it is open, or as above."),
}
"""The columns of the table. The view has no versions: what is found now has none yet."""


def read_findings(project: Project, since: datetime) -> list[Finding]:
    """The recorded findings that are open, or were closed at or after ``since`` (UTC). Raises TableError."""
    table = open_findings(project)
    recorded = read_recorded(table) if table else []
    return [one for one in recorded if one.closed is None or one.closed >= since]


def open_findings(project: Project) -> DeltaTable | None:
    """The table. None: nothing was ever found. Raises TableError."""
    layout = Layout.of(project)
    there = exists(layout.findings, layout.storage_options)
    return open_table(layout.findings, layout.storage_options) if there else None


def read_recorded(table: DeltaTable) -> list[Finding]:
    """All findings that ``table`` has."""
    return [_finding(row) for row in table.to_pyarrow_table().to_pylist()]


def with_openings(found: Iterable[Finding], recorded: Iterable[Finding]) -> list[Finding]:
    """``found``, each with the opening of the open one among ``recorded`` that is the same."""
    opened = {one.identity: one for one in recorded if one.closed is None}
    return [
        replace(one, opened=known.opened, opened_in=known.opened_in, first=min(one.first, known.first))
        if (known := opened.get(one.identity))
        else one
        for one in found
    ]


def record_findings(project: Project, found: Iterable[Finding], now: datetime) -> list[Finding]:
    """Record what was found at ``now`` (UTC): what is new opens, and what has gone closes. Findings that were closed
    before ``batch.reports_kept`` are deleted. Returns ``found`` with their openings.

    To be called by the batch layer, under its lease. Raises TableError, and ConflictError when another process has
    recorded at the same time.
    """
    layout = Layout.of(project)
    recorded = read_findings(project, now - project.settings.batch.reports_kept)
    table = open_or_create(
        layout.findings,
        layout.storage_options,
        "findings",
        schema_of(RECORDED_COLUMNS),
        PUBLISHED,
        "what a person should know of a source, over a span of arrival",
    )
    version = table.version() + 1  # A commit makes it, or fails.
    current = [
        one if one.opened else replace(one, opened=now, opened_in=version) for one in with_openings(found, recorded)
    ]
    there = {one.identity for one in current}
    gone = [
        replace(one, closed=now, closed_in=version) for one in recorded if not one.closed and one.identity not in there
    ]
    kept = [*(one for one in recorded if one.closed), *gone, *current]
    rows = pa.Table.from_pylist(to_rows(kept, RECORDED_COLUMNS), schema_of(RECORDED_COLUMNS))
    commits.overwrite(table, rows, None, {"open": len(current), "closed": len(gone)})
    return current


def to_rows(findings: Iterable[Finding], columns: Columns = FINDING_COLUMNS) -> list[dict[str, Any]]:
    """The findings as rows with ``columns``."""
    return [
        {
            **{name: getattr(one, name) for name in columns},
            "numbers": json.dumps(dict(one.numbers), default=str),
        }
        for one in findings
    ]


def _finding(row: Mapping[str, Any]) -> Finding:
    known = {name: value for name, value in row.items() if name != "numbers"}
    return Finding(**known, numbers=json.loads(row["numbers"] or "{}"))
