"""The archived events behind a cell: their number, their places in the topic, and their arrival."""

from datetime import datetime

from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.decodings import ArchiveDecodings, UsedDecoding
from hourline_core.ledger.layout import Layout
from hourline_core.model.decoding import describe_changes
from hourline_core.model.scratch_columns import (
    DECODING,
    DUPLICATE,
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC,
    TOPIC_ID,
    visible_name,
)
from hourline_core.sql.literals import identifier
from hourline_core.sql.progress import started_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell
from serving_layer.reports.decoded_anew import DecodedAnew, find_decoded_anew
from serving_layer.reports.looked_up import LookedUp, LookupKeys, find_looked_up
from serving_layer.reports.quarantined import QuarantinedEvent, find_quarantined


class Stretch(Described):
    """Events of one partition of a topic, or of one imported file, that count in the same layer. Other events may lie
    between their offsets.
    """

    layer: str
    """`final`: up to the cutoff. `provisional`: above it."""
    topic: str
    """The name of the topic, or of the file."""
    topic_id: str
    """Kafka's id of the topic, or the id of the file."""
    partition: int
    """The partition."""
    first_offset: int
    """The first offset."""
    last_offset: int
    """The last offset."""
    first_sequence: int
    """The first sequence."""
    last_sequence: int
    """The last sequence."""
    events: int
    """The number of events."""


class MadeBy(Described):
    """The events of the cell that one decoding has made of their records."""

    decoding: str
    """The hash of the declared settings. Empty: an older version of Hourline made them."""
    since: datetime | None
    """When the speed layer first started with these settings (UTC). Null: before that was recorded."""
    is_current: bool
    """Whether they are declared now. Otherwise a recompute decodes the records anew."""
    raw: bool
    """Whether the records' bytes were kept."""
    changes: list[str]
    """What is declared in another way now, in words."""
    events: int
    """The number of events."""


class CellEvents(Described):
    """The archived events of the hour that may belong to the group, as far as this can be decided without Spark."""

    of: list[str]
    """The dimensions by which events were chosen: those that are plain fields."""
    before: list[str]
    """The dimensions that were asked for, and the conditions, that were not evaluated, since they are expressions."""
    events: int
    """The number of events."""
    duplicates: int
    """The number of duplicates that the speed layer has recognised; of a derived source, of those that take an event
    back. They are not among `events`.
    """
    repeated: int | None
    """The number of `events` that repeat an id beyond the horizon, or were taken back: a recompute leaves them out.
    Null: the id is an expression.
    """
    counted: int | None
    """The number of `events` that the answer counts, before any condition of a measure: all but those that repeat an id
    and that a recompute has left out. Null: the id is an expression.
    """
    late: int
    """The number of `events` that arrived after the hour had closed."""
    sequences: int
    """The number of micro-batches that they came in."""
    first_arrived: datetime | None
    """When the first of these micro-batches began (UTC)."""
    last_arrived: datetime | None
    """When the last of these micro-batches began (UTC)."""
    stretches: list[Stretch]
    """Where the events are."""
    decodings: list[MadeBy]
    """The declared settings that made the events of their records, as they were archived."""
    quarantined: list[QuarantinedEvent]
    """The events of the hour that the metric does not count, because one of its classes fails for them."""
    decoded_anew: DecodedAnew | None
    """What today's declaration makes of the hour's records that another one has decoded. Null: no recompute has decoded
    them.
    """
    lookups: list[LookedUp]
    """What the events met in each lookup of the source."""


def find_events(connection: Connection, cell: Cell, cutoff: int | None) -> CellEvents:
    """The events of ``cell``; ``cutoff`` is the sequence up to which its hour was recomputed."""
    source, metric = cell.tables.source, cell.metric
    declared_now = connection.project.sources[source.name]
    layout = Layout.of(connection.project)
    decodings = ArchiveDecodings.read(layout, declared_now)
    decoded_anew = find_decoded_anew(connection, cell, declared_now, decodings)
    fields = {name.casefold(): name for name in source.event_fields}

    def field(expression: str) -> str | None:
        return fields.get(expression.strip("`").casefold())  # Spark tells columns apart without regard to case

    columns = {name: column for name in cell.values if (column := field(metric.dimensions[name]))}
    if decoded_anew is not None:
        columns = {}  # The archive may have other values of these fields, or none.
    conditions = [name for name, text in (("where", metric.where), ("where of the source", source.where)) if text]
    identity = field(source.id) if source.id else None
    declared = {name.casefold() for name in declared_now.event_fields}
    own = ", ".join(
        f"{identifier(visible_name(column, declared))} AS {column}"
        for column in (SEQUENCE, TOPIC_ID, TOPIC, PARTITION, OFFSET, DUPLICATE, EVENT_TIME, HOUR)
    )
    keys = LookupKeys(source)
    order = f"{SEQUENCE}, {TOPIC_ID}, {PARTITION}, {OFFSET}, coalesce({PLACE}, 0)"
    of_id = f"PARTITION BY {identifier(identity)}" if identity else ""
    # What takes an event back comes after it, and says so in its own micro-batch.
    again = "count(*) OVER (of_id)" if source.takes_back else f"row_number() OVER (of_id ORDER BY {order})"
    repeated = f"NOT {DUPLICATE} AND {identifier(identity)} IS NOT NULL AND {again} > 1" if identity else "false"
    known = f"max({SEQUENCE}) OVER (of_id)" if source.takes_back else SEQUENCE
    # An archive that an older version of Hourline made has no places and decodings.
    absent = f"SELECT NULL::INTEGER AS {PLACE}, NULL::VARCHAR AS {DECODING} WHERE false"
    events = f"(FROM events_{source.name} UNION ALL BY NAME {absent})"
    # The first of an id may lie in another cell of the hour.
    of_hour = f"""
        SELECT *, {repeated} AS {SCRATCH_PREFIX}repeated, {known} AS {SCRATCH_PREFIX}known
        FROM (SELECT *, {own} FROM {events}) WHERE {cell.condition({}, HOUR)} WINDOW of_id AS ({of_id})"""
    last = NO_CUTOFF if cutoff is None else cutoff
    connection.database.execute(f"""
        CREATE OR REPLACE TEMP TABLE _events AS
        SELECT sequence, topic_id, topic, partition, "offset", duplicate, repeated,
               repeated AND known <= {last} AS left_out, coalesce(late, false) AS late,
               started, decoding, {", ".join([EVENT_TIME, *keys.names, *(["lookups"] if source.lookups else [])])},
               if(sequence <= {last}, 'final', 'provisional') AS layer
        FROM (
            SELECT {SEQUENCE} AS sequence, {TOPIC_ID} AS topic_id, {TOPIC} AS topic, {PARTITION} AS partition,
                   {OFFSET} AS "offset", {DUPLICATE} AS duplicate, {HOUR} AS hour, {SCRATCH_PREFIX}repeated AS repeated,
                   {SCRATCH_PREFIX}known AS known,
                   coalesce({DECODING}, '') AS decoding, {", ".join([EVENT_TIME, *keys.columns])}
            FROM ({of_hour}) WHERE {cell.condition(columns, HOUR)}
        )
        -- Old progress is compacted: the row that holds a sequence is the next one.
        ASOF JOIN ({started_sql(source)}) ON sequence <= until
        LEFT JOIN (SELECT hour, sequence, true AS late FROM hourline.late_{source.name}) USING (hour, sequence)""")
    totals = connection.sql(
        "SELECT count(*) FILTER (NOT duplicate), count(*) FILTER (duplicate), count(*) FILTER (repeated), "
        "count(*) FILTER (left_out), count(*) FILTER (late AND NOT duplicate), "
        "count(DISTINCT sequence) FILTER (NOT duplicate), min(started) FILTER (NOT duplicate), max(started) FILTER "
        "(NOT duplicate) FROM _events"
    )
    ((events, duplicates, repetitions, left_out, late, sequences, first, last),) = totals.fetchall()
    stretches = connection.sql(
        'SELECT layer, topic, topic_id, partition, min("offset") AS first_offset, max("offset") AS last_offset, '
        "min(sequence) AS first_sequence, "
        "max(sequence) AS last_sequence, count(*) AS events FROM _events WHERE NOT duplicate GROUP BY ALL ORDER BY "
        "layer, topic, topic_id, partition"
    )
    return CellEvents(
        of=list(columns),
        before=[*(name for name in cell.values if name not in columns), *conditions],
        events=events,
        duplicates=duplicates,
        repeated=repetitions if identity or not source.id else None,
        counted=events - left_out if identity or not source.id else None,
        late=late,
        sequences=sequences,
        first_arrived=first,
        last_arrived=last,
        stretches=[Stretch(**row) for row in stretches.to_arrow_table().to_pylist()],
        quarantined=find_quarantined(connection, cell),
        decodings=_decodings(connection, decodings),
        decoded_anew=decoded_anew,
        lookups=find_looked_up(connection, cell, keys, stands=decoded_anew is None),
    )


def _decodings(connection: Connection, known: ArchiveDecodings) -> list[MadeBy]:
    """The decodings of ``_events``."""
    made = connection.sql("SELECT decoding, count(*) FROM _events WHERE NOT duplicate GROUP BY ALL ORDER BY ALL")
    found = []
    for hash, events in made.fetchall():
        used = next((one for one in known.used if one.hash == hash), UsedDecoding(hash, known.now.declared, raw=False))
        found.append(
            MadeBy(
                decoding=hash,
                since=used.since,
                is_current=hash == known.now.hash,
                raw=used.raw,
                changes=describe_changes(used, known.now),
                events=events,
            )
        )
    return found
