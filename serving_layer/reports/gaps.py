"""Reports the records that Kafka deleted before they were read, and their hours: `hourline gaps`."""

from datetime import datetime

from serving_layer.connection import Connection
from serving_layer.described import Described


class GapReport(Described):
    """Offsets of one partition that Kafka deleted before they were read. Times are in UTC."""

    gap: str
    """Its name, for `hourline gaps --confirm GAP`: the source, and the sequence that skipped it. Gaps of several
    partitions that were skipped at once have one name.
    """
    topic: str
    """The name of the topic."""
    partition: int
    """The number of the partition."""
    first: int
    """The first offset that is gone."""
    last: int
    """The last offset that is gone."""
    records: int
    """The maximum number of records that are gone: the number of offsets."""
    sent_after: datetime | None
    """When the last record before the gap was sent, by Kafka's timestamp. Null: it is not known."""
    sent_before: datetime | None
    """When the first record after the gap was sent, by Kafka's timestamp. Null: there was none."""
    first_hour: datetime | None
    """The first hour in which their events may lie. Null: it is not known, and may be any."""
    last_hour: datetime
    """The last hour in which their events may lie."""
    accepted: datetime
    """When the loss of these records was accepted."""
    confirmed: datetime | None
    """When a person confirmed its hours. Null: they are `incomplete`."""
    person: str | None
    """Who confirmed them."""
    reason: str | None
    """Why."""


def list_gaps(connection: Connection, source: str) -> list[GapReport]:
    """The gaps of a source, oldest first."""
    if not connection.snapshot.progress[source].has_gaps:
        return []
    rows = connection.sql(f'FROM hourline.gaps_{source} ORDER BY sequence, topic, partition, "first"')
    return [
        GapReport(
            gap=f"{source}.{row['sequence']}",
            last=row["end"] - 1,
            records=row["end"] - row["first"],
            **{name: row[name] for name in GapReport.model_fields.keys() & row.keys()},
        )
        for row in rows.to_arrow_table().to_pylist()
    ]
