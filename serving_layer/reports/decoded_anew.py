"""What today's declaration makes of the records of a cell that another one has decoded: the events, and the reasons of
records that are rejected now.
"""

from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import FROM_HOUR, NO_EVENT_REASON, Layout
from hourline_core.model import Source
from hourline_core.storage.opening import exists, open_table
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell


class RejectedAnew(Described):
    """Archived events whose records today's declaration rejects, for one reason."""

    reason: str
    """The reason."""
    events: int
    """The number of events."""
    topic: str
    """The name of the topic, or of the file, of the first one."""
    partition: int
    """The partition of the first one."""
    offset: int
    """The offset of the first one."""


class DecodedAnew(Described):
    """What today's declaration makes of the records that another one has decoded, as far as a recompute has decoded
    them anew. Duplicates are not counted.
    """

    events: int
    """The number of events that the hour has now."""
    entered: int
    """The number of `events` that were in another hour, or were rejected, as they were archived."""
    moved: int
    """The number of archived events of the hour that are in another hour now."""
    rejected: list[RejectedAnew]
    """The archived events of the hour that are rejected now, the most frequent reason first."""


def find_decoded_anew(
    connection: Connection, cell: Cell, source: Source, decodings: ArchiveDecodings
) -> DecodedAnew | None:
    """What is known of the hour of ``cell``, whatever its group. ``source`` is as declared now. None: none of its
    records was decoded anew. Raises TableError.
    """
    layout = Layout.of(connection.project)
    uri = layout.decoded(source, decodings.now.hash)
    if not decodings.others or not exists(uri, layout.storage_options):
        return None
    database = connection.database
    database.register("_decoded", open_table(uri, layout.storage_options).to_pyarrow_dataset())
    is_now, was_before = cell.condition({}, "hour"), cell.condition({}, FROM_HOUR)
    database.execute(f"""
        CREATE OR REPLACE TEMP TABLE _decoded_anew AS
        SELECT topic, partition, "offset", hour, {NO_EVENT_REASON} AS reason, coalesce({is_now}, false) AS is_now,
               coalesce({was_before}, false) AS was_before
        FROM _decoded WHERE NOT duplicate AND ({is_now} OR {was_before})""")
    database.unregister("_decoded")
    counts = connection.sql("""
        SELECT count(*), count(*) FILTER (is_now), count(*) FILTER (is_now AND NOT was_before),
               count(*) FILTER (NOT is_now AND hour IS NOT NULL)
        FROM _decoded_anew""")
    ((rows, events, entered, moved),) = counts.fetchall()
    if not rows:
        return None
    rejected = connection.sql("""
        SELECT reason, count(*) AS events,
               unnest(min(struct_pack(topic := topic, partition := partition, "offset" := "offset")))
        FROM _decoded_anew WHERE hour IS NULL AND reason IS NOT NULL GROUP BY reason ORDER BY events DESC, reason""")
    return DecodedAnew(
        events=events,
        entered=entered,
        moved=moved,
        rejected=[RejectedAnew(**row) for row in rejected.to_arrow_table().to_pylist()],
    )
