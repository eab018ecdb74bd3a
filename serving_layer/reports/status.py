"""Reports how far each source has come, and the state of its last hours: `hourline status`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hourline_core.ledger.pending import PendingDeclaration
from hourline_core.ledger.read_offsets import offsets_in, reading_of
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.model import Project, Source
from hourline_core.model.topics import matches
from hourline_core.runtime.kafka_absence import KafkaAbsence, last_absence
from hourline_core.runtime.lease import lease_holder
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import COUNTS, counts_sql, read_offsets_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.gaps import GapReport, list_gaps
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import PartitionStatus, TopicReading, report_partitions


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
    """The number of duplicates that the speed layer has recognised."""
    tombstones: int
    """The number of records without a value."""
    not_taken: int
    """The number of records that the source's branch does not take."""
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
    skipped: int
    """The number of offsets that a reset has jumped over and nothing has read since, also of those in a gap."""
    gaps: list[GapReport]
    """What Kafka deleted before it was read, whether or not it is confirmed."""
    lag: int | None
    """The number of offsets in Kafka that no finished micro-batch has read. 0 when all that can be read was. Null: it
    is not known.
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
    partitions: list[PartitionStatus]
    """The partitions of its topics. Those without a record are listed if Kafka has answered. None is before the first
    start of the speed layer.
    """


class HourStatus(Described):
    """One hour of one source."""

    hour: datetime
    """The hour (UTC)."""
    source: str
    """The name of the source."""
    state: str | None
    """The weakest state of its metrics. Null: it has no metric."""
    events: int
    """The number of accepted events in the hour."""
    late: int
    """The number of them that arrived after the hour had closed."""
    closed: bool
    """Whether the hour has closed."""
    report: str | None
    """The page of an hour's newest audit: of a blocked metric, or else of one with a warning. Null: there
    is no page, or it is no longer kept.
    """


class ChangingMetric(Described):
    """A metric whose declaration in the YAML is pending: readers do not get it yet."""

    metric: str
    """The name of the metric."""
    declaration: str
    """The hash of its declaration in the YAML."""
    served: str | None
    """The hash of the declaration that it answers by. Null: the metric is new, and has no answers."""
    served_since: datetime | None
    """When that one was promoted (UTC). Null: it is the first one."""
    missing: int | None
    """The number of hours to recompute before the new declaration is promoted. Null: the speed layer has not started
    since it was changed.
    """
    words: str
    """The same in one sentence, with the command that takes the change up."""


class KafkaAway(Described):
    """The last time in which Kafka did not answer the running speed layer, or did not allow what it must."""

    since: datetime
    """When Kafka was asked first and did not answer (UTC)."""
    until: datetime | None
    """When it answered again (UTC). Null: it is still away."""
    reason: str
    """What was wrong, as a sentence."""


class ProjectStatus(Described):
    """The status of a project."""

    project: str
    """The name of the project."""
    speed: str
    """Whether the speed layer runs, and whether Kafka is away, as a sentence."""
    kafka_away: KafkaAway | None
    """The last time without Kafka. Null: the running speed layer has seen none, or none runs."""
    sources: list[SourceStatus]
    """All sources."""
    changing: list[ChangingMetric]
    """The metrics whose new declaration is not served yet."""
    hours: list[HourStatus]
    """The last hours of each source."""


def report_project_status(project: Project, last: int) -> ProjectStatus:
    """The status of ``project`` with the ``last`` hours of each source. It waits for Kafka up to KafkaOffsets'
    limit.
    """
    offsets = KafkaOffsets(project)
    offsets.look_up()  # while the tables are read
    with Connection(project) as connection:
        return report_status(connection, last, offsets.within_limit())


def report_status(connection: Connection, last: int, offsets: Offsets) -> ProjectStatus:
    """The status of the project with the ``last`` hours of each source, by the connection's snapshot. ``offsets``
    are those in Kafka.
    """
    project = connection.project
    pid = lease_holder(project.workspace, "speed")
    speed = (
        f"the speed layer runs (process {pid})" if pid else "the speed layer is not running; `hourline up` starts it"
    )
    standby = lease_holder(project.workspace, "standby")
    if standby:
        speed += f"; process {standby} stands by"
    absence = last_absence(project.workspace)
    if absence:
        speed += f"; {_say_absence(absence)}"
    sources = [_source(connection, source, offsets[source.name]) for source in project.sources.values()]
    rows = connection.sql(
        "SELECT hour, name AS source, state, events, late, closed FROM hours WHERE kind = 'source' "
        f"QUALIFY row_number() OVER (PARTITION BY name ORDER BY hour DESC) <= {last} ORDER BY source, hour"
    )
    found = rows.to_arrow_table().to_pylist()
    pages = _pages(connection, [row["hour"] for row in found])
    hours = [HourStatus(**row, report=pages.get((row["source"], row["hour"]))) for row in found]
    return ProjectStatus(
        project=project.name,
        speed=speed,
        kafka_away=KafkaAway(since=absence.since, until=absence.until, reason=absence.reason) if absence else None,
        sources=sources,
        changing=list_changes(connection),
        hours=hours,
    )


def _say_absence(absence: KafkaAbsence) -> str:
    since = f"{absence.since:%Y-%m-%d %H:%M:%S}"
    if absence.until is None:
        return f"Kafka has been away since {since} UTC"
    return f"Kafka was away from {since} to {absence.until:%Y-%m-%d %H:%M:%S} UTC"


def _pages(connection: Connection, hours: list[datetime]) -> dict[tuple[str, datetime], str]:
    """By source and hour, the page of its newest audit."""
    if not hours:
        return {}
    rows = connection.sql(f"""
        WITH audits AS (
            SELECT source, hour, metric, declaration, publication, bool_and(success) AS passed FROM hourline.quality
            WHERE hour >= {literal(min(hours))} AND origin <> 'person' AND metric IS NOT NULL GROUP BY ALL
        ), newest AS (FROM audits QUALIFY publication = max(publication) OVER (PARTITION BY metric, declaration, hour))
        SELECT n.source, n.hour, n.metric, n.publication
        FROM newest n JOIN hourline.metric_hours h USING (metric, declaration, hour)
        QUALIFY row_number() OVER (
            PARTITION BY n.source, n.hour ORDER BY h.blocked_cutoff NULLS LAST, passed, n.publication DESC, n.metric
        ) = 1
        """).fetchall()
    site = report_site(connection.project)
    addressed = {
        (source, hour): site / page_path(publication, page_name(source, metric))
        for source, hour, metric, publication in rows
    }
    return {key: str(page) for key, page in addressed.items() if page.is_file()}


def list_changes(connection: Connection) -> list[ChangingMetric]:
    """The metrics whose declaration in the YAML is pending."""
    return [_report_change(connection, pending) for pending in connection.pending]


def _report_change(connection: Connection, pending: PendingDeclaration) -> ChangingMetric:
    missing = None
    if pending.is_started:
        ((missing,),) = connection.sql(
            f"SELECT count(*) FROM hourline.hours_{pending.metric}_{pending.declaration} WHERE counted = 'missing'"
        ).fetchall()
    return ChangingMetric(
        metric=pending.metric,
        declaration=pending.declaration,
        served=pending.served,
        served_since=pending.served_since,
        missing=missing,
        words=pending.in_words(missing),
    )


def _source(connection: Connection, source: Source, offsets: TopicOffsets | Unknown) -> SourceStatus:
    if source.name not in connection.snapshot.progress:
        counts: dict[str, Any] = dict.fromkeys(("sequence", "skipped", "late", *COUNTS), 0)
        return SourceStatus(
            source=source.name, gaps=[], clock=None, finished=None, partitions=[], **counts, **_in_kafka({}, offsets)
        )
    sequence = connection.snapshot.progress[source.name].sequence
    (counts,) = connection.sql(counts_sql(source, sequence)).to_arrow_table().to_pylist()
    readings = find_readings(connection, source, sequence)
    known_offsets = {} if isinstance(offsets, Unknown) else offsets
    return SourceStatus(
        source=source.name,
        sequence=sequence,
        gaps=list_gaps(connection, source.name),
        skipped=sum(offsets_in(ranges) for of in readings.values() for ranges in of.reading.skipped.values()),
        partitions=report_partitions(connection, source, readings, known_offsets),
        **counts,
        **_in_kafka(readings, offsets),
    )


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


def find_readings(connection: Connection, source: Source, sequence: int) -> dict[str, TopicReading]:
    """By its name, how far each topic of the source has been read; of several with one name, the one that was read
    last. Imported files, and topics that the source does not read any more, do not matter.
    """
    rows = connection.answer(read_offsets_sql(source, sequence)).to_arrow_table()
    last = rows.group_by("topic", use_threads=False).aggregate([("topic_id", "last")])
    by_name = dict(zip(last["topic"].to_pylist(), last["topic_id_last"].to_pylist(), strict=True))
    return {
        topic: TopicReading(topic_id, reading_of(rows, topic_id))
        for topic, topic_id in by_name.items()
        if topic and matches(source.topic, topic)
    }


def count_lag(readings: Mapping[str, TopicReading], offsets: TopicOffsets) -> int:
    """The lag. Kafka was asked before the tables were read, so they may be further."""
    return sum(
        max(0, of.end - max(_next_offset(readings, topic, partition), of.earliest))
        for topic, partitions in offsets.items()
        for partition, of in partitions.items()
    )


def _next_offset(readings: Mapping[str, TopicReading], topic: str, partition: int) -> int:
    return readings[topic].reading.next_offsets.get(partition, 0) if topic in readings else 0
