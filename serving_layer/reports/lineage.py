"""Reports where a number comes from: `hourline explain`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.model import derived_of
from hourline_core.model.hour_state import HourStateName
from hourline_core.sql.coverage import of_declaration
from hourline_core.sql.differences import without_late_events
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import counted_states_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell, find_cell, finish_values, refuse_without_rows
from serving_layer.reports.cell_events import CellEvents, find_events
from serving_layer.reports.changing_metrics import ChangingMetric, list_changes
from serving_layer.reports.published_values import PublishedValue, list_published_values
from serving_layer.reports.quality import AuditedHour, list_audits


class Answer(Described):
    """One measure of the answer, and what each layer contributes. Null: there are no rows, or the value is null."""

    measure: str
    """The name of the measure."""
    declared: str
    """How it is declared, such as `sum(delay)`."""
    value: Any
    """The value that is served."""
    final: Any
    """The value of the batch layer, up to the cutoff."""
    provisional: Any
    """The value of the speed layer, above the cutoff."""
    at_close: Any
    """The value without the late events that no recompute has counted yet."""


class Declared(Described):
    """The declaration that the answer comes from. Expressions are Spark SQL."""

    hash: str
    """The hash of the declaration."""
    source: str
    """The name of the source."""
    dimensions: dict[str, str]
    """The expressions of the dimensions."""
    measures: dict[str, str]
    """The measures, as they are declared."""
    derived: dict[str, str]
    """The derived fields that the other expressions name."""
    where: str | None
    """The condition of the metric."""
    source_where: str | None
    """The condition of the source."""
    id: str | None
    """The expression that identifies an event."""
    takes_back: bool
    """Whether events of it may be taken back: it is a left or full join, a snapshot, an upsert or a join of these."""
    explode: dict[str, str]
    """How a record becomes several events: the name of the element, and the expression."""
    changing: ChangingMetric | None
    """The new declaration in the YAML that is not promoted yet. Null: there is none."""


class Versions(Described):
    """The versions of the tables that were read, and the sequences that count in them."""

    progress: int
    """The version of progress."""
    sequence: int
    """The sequence of the last finished micro-batch. The answer counts up to it."""
    provisional: int
    """The version of the provisional table."""
    publication: int | None
    """The version of coverage. Null: nothing was published yet."""
    final: int | None
    """The version of the final table. Null: nothing of the metric was published yet."""
    cutoff: int | None
    """The sequence up to which the hour was recomputed. Null: it was not recomputed."""
    published: datetime | None
    """When it was published (UTC)."""
    above: int
    """The number of micro-batches above the cutoff with events of the hour."""
    first_above: int | None
    """The first sequence of them."""
    last_above: int | None
    """The last sequence of them."""


class Explanation(Described):
    """Where the measures of one group, or of several groups together, come from."""

    metric: str
    """The name of the metric."""
    description: str | None
    """Its description."""
    hour: datetime
    """The hour (UTC)."""
    dimensions: dict[str, str | None]
    """The dimensions that were asked for, as text. The others are rolled up."""
    groups: int
    """The number of groups that were merged. 0: no event of the hour counts for the metric, or the hour is missing."""
    state: HourStateName
    """The state of the hour."""
    closed: bool
    """Whether the hour has closed."""
    answer: list[Answer]
    """The measures."""
    declared: Declared
    """The declaration."""
    events: CellEvents
    """The archived events."""
    versions: Versions
    """The versions of the tables."""
    audit: AuditedHour | None
    """The newest audit, with what was not fulfilled. Null: there was none, or it is no longer kept."""
    published: list[PublishedValue]
    """Every value that was published, oldest first."""


def explain_number(
    connection: Connection, metric: str, hour: datetime, dimensions: Mapping[str, str | None] | None = None
) -> Explanation:
    """Where the numbers of ``metric`` come from in ``hour`` (UTC), in the groups with these ``dimensions`` (as text;
    None: null).

    Dimensions that are not given are rolled up, by merging states. Raises as ``find_cell`` does, and NotFoundError when
    no group has the values.
    """
    cell = find_cell(connection, metric, hour, dimensions or {})
    tables = cell.tables
    (known,) = connection.sql(
        "SELECT state, closed, cutoff FROM hourline.metric_hours "
        f"WHERE {of_declaration(tables)} AND {cell.condition({})}"
    ).fetchall()
    state, closed, cutoff = known
    groups, answer = _answer(connection, cell)
    audits = list_audits(connection, cell.hour, metric)
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
        declared=describe_declaration(connection, cell),
        events=find_events(connection, cell, cutoff),
        versions=_versions(connection, cell, cutoff),
        audit=newest[0] if newest else None,
        published=list_published_values(connection, cell, audits),
    )


def _answer(connection: Connection, cell: Cell) -> tuple[int, list[Answer]]:
    """The number of groups that were merged, and their measures."""
    database, tables, metric = connection.database, cell.tables, cell.metric
    counted = counted_states_sql(tables, cell.stored, connection.snapshot.progress[tables.source.name].sequence)
    database.execute(f"CREATE OR REPLACE TEMP TABLE _counted AS SELECT * FROM ({counted}) WHERE {cell.condition({})}")
    refuse_without_rows(connection, cell, "_counted")
    rows = cell.of("_counted")
    merged, final, provisional, at_close = (
        finish_values(connection, cell, part)
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


def describe_declaration(connection: Connection, cell: Cell) -> Declared:
    """The declaration that the cell comes from."""
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
        takes_back=source.takes_back,
        explode=source.explode,
        changing=next((item for item in list_changes(connection) if item.metric == metric.name), None),
    )


def _versions(connection: Connection, cell: Cell, cutoff: int | None) -> Versions:
    tables, snapshot = cell.tables, connection.snapshot
    progress = snapshot.progress[tables.source.name]
    (above,) = connection.sql(
        f"SELECT count(DISTINCT sequence), min(sequence), max(sequence) FROM hourline.provisional_{tables.name} WHERE "
        f"{cell.condition({})} "
        f"AND sequence > {NO_CUTOFF if cutoff is None else cutoff} "
        f"AND sequence >= {tables.complete_from} AND sequence <= {progress.sequence}"
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
