"""Every value that was published for a cell, as far as the tables still have it, and why each differs from the one
before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pydantic import Field

from hourline_core.errors import TableError
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.layout import Layout
from hourline_core.sql.literals import literal
from hourline_core.storage.opening import open_table
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell, finish_values
from serving_layer.reports.quality import AuditedHour


class Reason(Described):
    """Why a measure of the whole hour changed, and by how much, over all dimensions."""

    cause: str
    """`late`, `duplicate`, `declaration`, `lookup`, `taken_back`, `rounding` or `unexplained`."""
    measure: str
    """The name of the measure."""
    amount: float | None
    """The change. Null: the measure is no number."""
    cells: int
    """The number of groups that changed."""


class PublishedValue(Described):
    """The values of the group at one stage of one publication."""

    stage: Literal["at_close", "provisional", "final", "blocked"]
    """`at_close`: served by the speed layer, without late events. `provisional`: served last before the publication.
    `final`: published. `blocked`: not published, since the audit did not pass.
    """
    publication: int
    """The number of the publication, or of the publication that replaced what was served."""
    published: datetime
    """When it was published (UTC)."""
    cutoff: int | None
    """The sequence up to which events were counted. Null: counted by the speed layer."""
    values: dict[str, Any] | None
    """The values, by measure. Null: they are no longer kept."""
    why: list[Reason] = Field(default=[])
    """Why they differ from the values before."""
    note: str = ""
    """What the audit, or a person, said."""


def list_published_values(connection: Connection, cell: Cell, audits: list[AuditedHour]) -> list[PublishedValue]:
    """The values of ``cell``, oldest first. ``audits`` are all known audits of its hour.

    What was served before a publication is kept over all dimensions only. So a cell with dimensions has its published
    values only.
    """
    publications = defaultdict(list)
    for row in _drift(connection, cell):
        publications[row["publication"]].append(row)
    validated = {audit.publication: audit for audit in audits}
    found: list[PublishedValue] = []
    for number in sorted({*publications, *(number for number, audit in validated.items() if _has_failed(audit))}):
        audit = validated.get(number)
        if number in publications:
            found += _of_publication(connection, cell, number, publications[number], audit)
        elif audit:
            found.append(_read_blocked(connection, cell, audit))
    return found


def _drift(connection: Connection, cell: Cell) -> list[dict[str, Any]]:
    rows = connection.sql(
        "SELECT publication, published, declaration, measure, cutoff, at_close, provisional, final, causes FROM "
        "hourline.drift "
        f"WHERE metric = {literal(cell.metric.name)} AND hour = {literal(cell.hour)} ORDER BY publication"
    )
    found: list[dict[str, Any]] = rows.to_arrow_table().to_pylist()
    return found


def _of_publication(
    connection: Connection, cell: Cell, number: int, rows: list[dict[str, Any]], audit: AuditedHour | None
) -> Iterator[PublishedValue]:
    moment, declaration = rows[0]["published"], rows[0]["declaration"]
    rows = [row for row in rows if row["measure"] in cell.metric.measures]
    why = [Reason(measure=row["measure"], **cause) for row in rows for cause in row["causes"] or []]
    late = [reason for reason in why if reason.cause == "late"]
    if not cell.values and any(row["provisional"] is not None for row in rows):
        if late:
            yield PublishedValue(
                stage="at_close", publication=number, published=moment, cutoff=None, values=_stage(rows, "at_close")
            )
        yield PublishedValue(
            stage="provisional",
            publication=number,
            published=moment,
            cutoff=None,
            values=_stage(rows, "provisional"),
            why=late,
        )
        why = [reason for reason in why if reason.cause != "late"]
    cutoff, values = _read_published(connection, cell, declaration, number)
    if not cell.values:
        values = _exact(values, _stage(rows, "final"))
    note = "" if declaration == cell.tables.declaration else f"as declared then ({declaration})"
    if audit and (words := [finding.found for finding in audit.findings if finding.origin == "person"]):
        note = f"accepted by {words[0]}"
    yield PublishedValue(
        stage="final",
        publication=number,
        published=moment,
        cutoff=rows[0]["cutoff"] if cutoff is None else cutoff,
        values=values,
        why=why,
        note=note,
    )


def _stage(rows: list[dict[str, Any]], stage: str) -> dict[str, Any]:
    return {row["measure"]: row[stage] for row in rows}


def _exact(values: dict[str, Any] | None, kept: Mapping[str, float | None]) -> dict[str, Any]:
    """The values in drift, which are doubles. If final still has the exact value, or it is no number, final's."""
    exact = values or {}
    return {
        name: exact.get(name) if value is None or exact.get(name) == value else value for name, value in kept.items()
    }


def _read_published(
    connection: Connection, cell: Cell, declaration: str, publication: int
) -> tuple[int | None, dict[str, Any] | None]:
    """The cutoff, and the cell's values in the final table, at ``publication``. None if they are no longer kept, or
    had another declaration.
    """
    tables, layout = cell.tables, Layout.of(connection.project)
    if declaration != tables.declaration:
        return None, None
    try:
        coverage = Coverage.at(open_table(layout.coverage, layout.storage_options, publication))
        covered = coverage.of(tables.metric.name, declaration)
        final = open_table(layout.final_of(tables.metric.name, declaration), layout.storage_options, covered.pinned())
        rows = final.to_pyarrow_table(filters=[("hour", "=", cell.hour)])
    except (TableError, DeltaError, OSError, pa.ArrowException):
        return None, None
    connection.database.register("_published", rows)
    return covered.cutoffs([cell.hour]).get(cell.hour), finish_values(connection, cell, cell.of("_published"))


def _read_blocked(connection: Connection, cell: Cell, audit: AuditedHour) -> PublishedValue:
    """The value of an hour that did not pass. Its rows are kept as long as it is blocked."""
    failed = [f for f in audit.findings if f.severity == "fail" and not f.success]
    mark = connection.snapshot.blocked.get((cell.metric.name, cell.hour))
    kept = mark and mark.blocked_cutoff == audit.cutoff and mark.declaration == cell.tables.declaration
    return PublishedValue(
        stage="blocked",
        publication=audit.publication,
        published=audit.audited,
        cutoff=audit.cutoff,
        values=finish_values(connection, cell, cell.of(f"hourline.staged_{cell.tables.name}")) if kept else None,
        note="; ".join(f"{f.expectation}{f' of {f.about}' if f.about else ''}: {f.found}" for f in failed),
    )


def _has_failed(audit: AuditedHour) -> bool:
    return any(finding.severity == "fail" and not finding.success for finding in audit.findings)
