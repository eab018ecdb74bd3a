"""The events that a class of a metric fails for: the metric does not count them until the class is mended."""

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.scratch_columns import PLACE
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell


class QuarantinedEvent(Described):
    """An event in quarantine."""

    measure: str
    """The name of the first measure whose class failed."""
    file: str
    """The file of the class, within the project."""
    message: str
    """What the class raised, with its file and line."""
    topic: str
    """The name of the topic, or of the file."""
    partition: int
    """The partition."""
    offset: int
    """The offset."""
    place: int
    """The place of the event in its record, from 0."""


def find_quarantined(connection: Connection, cell: Cell) -> list[QuarantinedEvent]:
    """The events of the hour of ``cell`` that the speed layer has put into quarantine, whatever their group."""
    if f"quarantine/{cell.tables.source.name}" not in connection.snapshot.other_tables:
        return []
    events = connection.sql(f"""
        SELECT measure, file, message, topic, partition, "offset", coalesce({PLACE}, 0) AS place
        FROM hourline.quarantine_{cell.tables.source.name}
        WHERE {_of_declaration(connection, cell.tables)} AND {cell.condition({})}
        ORDER BY topic, partition, "offset", place""")
    return [QuarantinedEvent(**row) for row in events.to_arrow_table().to_pylist()]


def _of_declaration(connection: Connection, tables: MetricTables) -> str:
    """The condition on the rows of the quarantine that are about this declaration of a metric."""
    return (
        f"(declaration = {literal(tables.declaration)} AND metric = {literal(tables.metric.name)} "
        f"AND sequence BETWEEN {tables.complete_from} AND {connection.snapshot.progress[tables.source.name].sequence})"
    )
