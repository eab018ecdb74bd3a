"""Reports how far each source has come. Each question is asked once for all sources."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hourline_core.ledger.read_offsets import offsets_in
from hourline_core.model import Source
from hourline_core.model.hour_state import HourStateName
from hourline_core.model.topics import names_of
from hourline_core.runtime.registry_absence import registry_absences
from hourline_core.runtime.topic_absence import absent_topics
from hourline_core.sql.all_progress import COUNTS_SQL
from hourline_core.sql.progress import COUNTS
from hourline_core.sql.quarantine import quarantined_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.arrived_files import (
    ArrivedFiles,
    find_arrived_files,
    offsets_of_files,
    readings_of_files,
)
from serving_layer.reports.each_source import ask_each
from serving_layer.reports.gaps import GapReport, list_gaps
from serving_layer.reports.hour_summary import LongSilence, SourceHours
from serving_layer.reports.input_state import find_input_states
from serving_layer.reports.kafka_offsets import Offsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import PartitionStatus, TopicReading, report_partitions
from serving_layer.reports.unread import ReadOffsets, count_lag, find_read_offsets, offsets_of_inputs, offsets_of_known


class AbsentTopic(Described):
    """A topic that was deleted, and that its source waits for, as `on_recreate: continue` says."""

    topic: str
    """The name of the topic."""
    since: datetime
    """When the running speed layer noticed it (UTC)."""


class RegistryAway(Described):
    """A schema that a source needs, and that the schema registry does not tell."""

    since: datetime
    """When the source began to wait (UTC)."""
    reason: str
    """What is wrong, as a sentence."""


class SourceStatus(Described):
    """The progress of one source. Counts are since the beginning."""

    source: str
    """The name of the source."""
    sequence: int
    """The sequence of its last finished micro-batch. 0: nothing was read yet."""
    records: int
    """The number of records read: records + exploded = accepted + rejected + duplicates + tombstones + empty +
    not_taken.
    """
    accepted: int
    """The number of accepted events."""
    rejected: int
    """The number of events that did not pass validation."""
    duplicates: int
    """The number of duplicates that the speed layer has recognised; of a derived source, of those that take an event
    back.
    """
    tombstones: int
    """The number of records without a value."""
    not_taken: int
    """The number of records that the source's branch does not take; of a derived source, the number of events of its
    inputs that have null in their key.
    """
    taken_by_none: int
    """The number of records that no branch of the topic took when they were read first. The first source by name counts
    them.
    """
    exploded: int
    """The number of events beyond the first one of each record. 0 unless the source declares `explode`."""
    empty: int
    """The number of records without an event: the array to explode was empty or null."""
    late: int
    """The number of accepted events that arrived after their hour had closed."""
    quarantined: int
    """The number of accepted events that metrics, as they are served, do not count, because a class of theirs fails for
    them. An event that several metrics do not count is several.
    """
    skipped: int
    """The number of offsets that a reset has jumped over and that have not been read since, also of those in a gap."""
    gaps: list[GapReport]
    """What Kafka deleted before it was read, whether or not it is confirmed."""
    lag: int | None
    """The number of offsets in Kafka that no finished micro-batch has read; of a derived source, the number of
    micro-batches of its inputs; of a source of files, the number of files. 0 when all that can be read was. Null: it is
    not known.
    """
    lag_unknown: str | None
    """Why the lag is not known. Null: it is known."""
    in_transaction: int | None
    """The number of offsets that open transactions hold back, beside the lag. Null: it is not known."""
    in_transaction_since: datetime | None
    """When the first of these was sent, by Kafka's timestamp (UTC). Null: there is none, or it is not known."""
    clock: datetime | None
    """The source's clock (UTC): the least of its live partitions' clocks. Null: nothing was accepted yet."""
    finished: datetime | None
    """When its last micro-batch was finished (UTC)."""
    waits_for: list[AbsentTopic]
    """The deleted topics that it waits for. Nothing is read of it meanwhile."""
    registry_away: RegistryAway | None
    """What it waits for the schema registry for. Nothing is read of it meanwhile. Null: it does not wait."""
    files: ArrivedFiles | None
    """The files that have arrived, if the source reads files or a Delta table. Null: it reads topics, or is derived."""
    state: HourStateName | None
    """The weakest state of its hours, without open ones that are provisional. Null: there is none, or it has no
    metric.
    """
    hours: int
    """The number of hours in that state."""
    oldest_open: datetime | None
    """The oldest hour that has not closed (UTC). Null: there is none."""
    long_silences: list[LongSilence]
    """Its long silences, in their order: the hours without an event after 31 days of them."""
    partitions: list[PartitionStatus]
    """The partitions of its topics; of a derived source, its inputs, each with one partition; of a source of files, the
    folder or table, whose offsets are files. Those without a record are listed if Kafka has answered. None is before
    the first start of the speed layer.
    """


def report_sources(connection: Connection, offsets: Offsets, hours: Mapping[str, SourceHours]) -> list[SourceStatus]:
    """All declared sources. ``offsets`` are those in Kafka, and ``hours`` by source a summary of its hours."""
    snapshot, sources = connection.snapshot, connection.project.sources.values()
    files = find_arrived_files(connection, sources)
    read = find_read_offsets(connection, sources)
    read |= {name: readings_of_files(connection.project.sources[name], of) for name, of in files.items()}
    known = {source.name: _find_offsets(connection, source, files, read, offsets) for source in sources}
    counts = {name: rows.to_pylist()[0] for name, rows in ask_each(connection, COUNTS_SQL).items() if rows.num_rows}
    nothing = {**dict.fromkeys(("late", *COUNTS), 0), "clock": None, "finished": None}
    partitions = report_partitions(
        connection,
        sources,
        {name: of.readings for name, of in read.items()},
        {name: {} if isinstance(of, Unknown) else of for name, of in known.items()},
        find_input_states(connection, {name: counts.get(name, nothing)["clock"] for name in snapshot.progress}),
    )
    quarantined = _count_quarantined(connection)
    away = absent_topics(connection.project.workspace)
    without_registry = {
        name: RegistryAway(since=one.since, reason=one.reason)
        for name, one in registry_absences(connection.project.workspace).items()
    }
    return [
        SourceStatus(
            source=name,
            sequence=snapshot.progress[name].sequence if name in snapshot.progress else 0,
            gaps=list_gaps(connection, name) if name in snapshot.progress else [],
            quarantined=quarantined.get(name, 0),
            skipped=_count_skipped(read[name]) if name in read else 0,
            waits_for=[
                AbsentTopic(topic=topic, since=away[topic]) for topic in names_of(source.topic) if topic in away
            ],
            registry_away=without_registry.get(name),
            files=files.get(name),
            partitions=partitions.get(name, []),
            **vars(hours.get(name, SourceHours())),
            **counts.get(name, nothing),
            **_in_kafka(read[name].readings if name in read else {}, known[name]),
        )
        for name, source in connection.project.sources.items()
    ]


def _find_offsets(
    connection: Connection,
    source: Source,
    files: Mapping[str, ArrivedFiles],
    read: Mapping[str, ReadOffsets],
    offsets: Offsets,
) -> TopicOffsets | Unknown:
    if source.is_derived:
        return offsets_of_inputs(connection, source)
    if source.name in files:
        return offsets_of_files(source, files[source.name])
    return offsets_of_known(source, read.get(source.name, ReadOffsets()), offsets[source.name])


def _count_quarantined(connection: Connection) -> dict[str, int]:
    """By source, the rows of its quarantine that are about the declarations that are served."""
    found = {}
    for name, known in connection.snapshot.progress.items():
        if query := quarantined_sql(connection.snapshot, connection.project.sources[name], known.sequence):
            ((found[name],),) = connection.sql(f"SELECT events FROM ({query})").fetchall()
    return found


def _count_skipped(read: ReadOffsets) -> int:
    return sum(offsets_in(ranges) for of in read.readings.values() for ranges in of.reading.skipped.values())


def _in_kafka(readings: Mapping[str, TopicReading], offsets: TopicOffsets | Unknown) -> dict[str, Any]:
    """The fields of a source's status that say what waits in Kafka."""
    if isinstance(offsets, Unknown):
        return {"lag": None, "lag_unknown": offsets.reason, "in_transaction": None, "in_transaction_since": None}
    ends = [of for partitions in offsets.values() for of in partitions.values()]
    return {
        "lag": count_lag(readings, offsets),
        "lag_unknown": None,
        "in_transaction": sum(of.held_back for of in ends),
        "in_transaction_since": min((of.held_back_since for of in ends if of.held_back_since), default=None),
    }
