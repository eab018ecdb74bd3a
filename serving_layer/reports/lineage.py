"""Where a number comes from: what `hourline explain` shows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from hourline_core.model import derived_of
from hourline_core.sql.coverage import of_declaration
from hourline_core.sql.differences import without_late_events
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import counted_states_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell, cell_of, finished_values, refuse_without_rows
from serving_layer.reports.cell_events import CellEvents, cell_events
from serving_layer.reports.published_values import PublishedValue, published_values
from serving_layer.reports.quality import AuditedHour, all_audits
from serving_layer.reports.status import ChangingMetric, find_change


class Answer(Described):
    """One measure: what is served, and what each layer has to say of it. A part without rows is None, as is a value
    that is null.
    """

    measure: str
    declared: str
    value: Any
    final: Any
    """By the batch layer, up to the cutoff."""
    provisional: Any
    """By the speed layer, above the cutoff."""
    at_close: Any
    """Without the late events that no recompute has counted yet."""


class Declared(Described):
    """The declaration that the answer comes from; expressions are Spark SQL."""

    hash: str
    source: str
    dimensions: dict[str, str]
    measures: dict[str, str]
    derived: dict[str, str]
    """The derived fields that the others name."""
    where: str | None
    source_where: str | None
    id: str | None
    changing: ChangingMetric | None
    """Not None: the YAML says otherwise by now, and what it says has not taken over yet."""


class Versions(Described):
    """Which version of each table was read, and which sequences count in it."""

    progress: int
    sequence: int
    """The last finished micro-batch: the answer counts up to it."""
    provisional: int
    publication: int | None
    """The version of coverage; -1: nothing was ever published."""
    final: int | None
    """None: nothing of this metric was ever published."""
    cutoff: int | None
    """The sequence up to which the hour was recomputed; None: it was not."""
    published: datetime | None
    above: int
    """So many micro-batches above the cutoff brought something for this hour."""
    first_above: int | None
    last_above: int | None


class Explanation(Described):
    """One number, or several measures of the same groups, and all that is known of how they came about. Times in UTC."""

    metric: str
    description: str | None
    hour: datetime
    dimensions: dict[str, str | None]
    """Those that were asked for, as text; the others are rolled up."""
    groups: int
    """So many were merged; none: no event of the hour counts for the metric, or the hour is missing."""
    state: Literal["final", "revised", "provisional", "blocked", "missing"]
    closed: bool
    """Whether the hour has closed, by its source's clock."""
    answer: list[Answer]
    declared: Declared
    events: CellEvents
    versions: Versions
    audit: AuditedHour | None
    """The newest one, and what it found wrong; None: there was none, or it is kept no longer."""
    published: list[PublishedValue]
    """Oldest first."""


def explanation(
    connection: Connection, metric: str, hour: datetime, dimensions: Mapping[str, str | None] | None = None
) -> Explanation:
    """Where the numbers of ``metric`` come from in ``hour`` (UTC), in the groups with these ``dimensions`` (as text;
    None: null).

    Dimensions that are not given are rolled up, by merging states. Raises UsageError when there is no such metric,
    dimension, value or hour.
    """
    cell = cell_of(connection, metric, hour, dimensions or {})
    tables = cell.tables
    (known,) = connection.sql(
        "SELECT state, closed, cutoff FROM hourline.metric_hours "
        f"WHERE {of_declaration(tables)} AND {cell.condition({})}"
    ).fetchall()
    state, closed, cutoff = known
    groups, answer = _answer(connection, cell)
    audits = all_audits(connection, cell.hour, metric)
    for audit in audits:
        audit.findings = [finding for finding in audit.findings if not finding.success or finding.origin == "person"]
    newest = [audit for audit in audits if audit.outcome != "superseded"]
    return Explanation(
        metric=metric,
        description=tables.metric.description,
        hour=cell.hour,
        dimensions=dict(cell.values),
        groups=groups,
        state=state,
        closed=closed,
        answer=answer,
        declared=_declared(connection, cell),
        events=cell_events(connection, cell, cutoff),
        versions=_versions(connection, cell, cutoff),
        audit=newest[0] if newest else None,
        published=published_values(connection, cell, audits),
    )


def _answer(connection: Connection, cell: Cell) -> tuple[int, list[Answer]]:
    """How many groups were merged, and what came of it."""
    database, tables, metric = connection.database, cell.tables, cell.metric
    counted = counted_states_sql(tables, cell.stored, connection.snapshot.progress[tables.source.name].sequence)
    database.execute(f"CREATE OR REPLACE TEMP TABLE _counted AS SELECT * FROM ({counted}) WHERE {cell.condition({})}")
    refuse_without_rows(connection, cell, "_counted")
    rows = cell.of("_counted")
    merged, final, provisional, at_close = (
        finished_values(connection, cell, part)
        for part in (
            rows,
            f"{rows} AND sequence IS NULL",
            f"{rows} AND sequence IS NOT NULL",
            without_late_events(rows, tables),
        )
    )
    keys = ", ".join(["hour", *map(identifier, metric.dimensions)])
    groups = len(database.execute(f"SELECT DISTINCT {keys} FROM ({rows})").fetchall())
    return groups, [
        Answer(
            measure=name,
            declared=str(measure),
            value=merged[name],
            final=final[name],
            provisional=provisional[name],
            at_close=at_close[name],
        )
        for name, measure in metric.measures.items()
    ]


def _declared(connection: Connection, cell: Cell) -> Declared:
    source, metric = cell.tables.source, cell.metric
    return Declared(
        hash=cell.tables.declaration,
        source=source.name,
        dimensions=metric.dimensions,
        measures={name: str(measure) for name, measure in metric.measures.items()},
        derived=derived_of(source, metric),
        where=metric.where,
        source_where=source.where,
        id=source.id,
        changing=find_change(connection, cell.tables),
    )


def _versions(connection: Connection, cell: Cell, cutoff: int | None) -> Versions:
    tables, snapshot = cell.tables, connection.snapshot
    progress = snapshot.progress[tables.source.name]
    (above,) = connection.sql(
        f"SELECT count(DISTINCT sequence), min(sequence), max(sequence) FROM hourline.provisional_{tables.name} WHERE {cell.condition({})} "
        f"AND sequence > {-1 if cutoff is None else cutoff} AND sequence >= {tables.complete_from} AND sequence <= {progress.sequence}"
    ).fetchall()
    covered = snapshot.coverage.of(cell.metric.name, tables.declaration).covered([cell.hour]).get(cell.hour)
    return Versions(
        progress=progress.version,
        sequence=progress.sequence,
        provisional=tables.provisional,
        publication=snapshot.publication,
        final=tables.final,
        cutoff=cutoff,
        published=covered.published if covered else None,
        above=above[0],
        first_above=above[1],
        last_above=above[2],
    )
