"""Reports how far each source has come, and the state of its last hours: `hourline status`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from hourline_core.ledger.pending_declarations import PendingDeclaration
from hourline_core.ledger.read_offsets import offsets_in
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.model import Project, Source
from hourline_core.model.hour_state import WEAKEST_FIRST, HourStateName
from hourline_core.model.natural_order import natural_key
from hourline_core.model.topics import names_of
from hourline_core.runtime.topic_absence import absent_topics
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import COUNTS, counts_sql
from hourline_core.sql.quarantine import quarantined_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.gaps import GapReport, list_gaps
from serving_layer.reports.hour_summary import MetricStatus, SourceHours, sum_up_hours
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets, SourceOffsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import PartitionStatus, TopicReading, report_partitions
from serving_layer.reports.problems import find_problems
from serving_layer.reports.speed_state import SpeedState, report_speed_state
from serving_layer.reports.unread import count_lag, find_readings, offsets_of_known
from serving_layer.reports.wrong import Wrong, list_wrong


class AbsentTopic(Described):
    """A topic that was deleted, and that its source waits for, as `on_recreate: continue` says."""

    topic: str
    """The name of the topic."""
    since: datetime
    """When the running speed layer noticed it (UTC)."""


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
    quarantined: int
    """The number of accepted events that metrics, as they are served, do not count, because a class of theirs fails for
    them. An event that several metrics do not count is several.
    """
    skipped: int
    """The number of offsets that a reset has jumped over and that have not been read since, also of those in a gap."""
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
    waits_for: list[AbsentTopic]
    """The deleted topics that it waits for. Nothing is read of it meanwhile."""
    state: HourStateName | None
    """The weakest state of its hours, without open ones that are provisional. Null: there is none, or it has no
    metric.
    """
    hours: int
    """The number of hours in that state."""
    oldest_open: datetime | None
    """The oldest hour that has not closed (UTC). Null: there is none."""
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


class HoursAhead(Described):
    """The hours of a source after the clocks of all its partitions. They come from records with a wrong event time, or
    from a leap that further records must confirm.
    """

    source: str
    """The name of the source."""
    hours: int
    """The number of hours."""
    events: int
    """The number of accepted events in them."""
    first: datetime
    """The first of them (UTC)."""
    last: datetime
    """The last of them (UTC)."""


class ChangingMetric(Described):
    """A metric whose declaration in the YAML is pending: queries do not use it yet."""

    metric: str
    """The name of the metric."""
    declaration: str
    """The hash of its declaration in the YAML."""
    served: str | None
    """The hash of the declaration that queries use. Null: the metric is new, and has no answers."""
    served_since: datetime | None
    """When that one was promoted (UTC). Null: it is the first one."""
    missing: int | None
    """The number of hours to recompute before the new declaration is promoted. Null: the speed layer has not started
    since it was changed.
    """
    words: str
    """The same in one sentence, with the command to run."""


class LackingMetric(Described):
    """A metric whose results lack hours: they have events from before it was first computed or reset."""

    metric: str
    """The name of the metric."""
    closed: int
    """The number of its missing hours that have closed."""
    open: int
    """The number of its missing hours that have not closed."""
    words: list[str]
    """The same in sentences, each with the command that computes these hours."""


class ProjectStatus(SpeedState):
    """The status of a project."""

    project: str
    """The name of the project."""
    wrong: list[Wrong]
    """What is wrong now, the most important first."""
    sources: list[SourceStatus]
    """All sources: those that need a look first."""
    metrics: list[MetricStatus]
    """All metrics that have tables."""
    changing: list[ChangingMetric]
    """The metrics whose new declaration is not served yet."""
    lacking: list[LackingMetric]
    """The metrics whose results lack hours."""
    hours: list[HourStatus]
    """The last hours of each source, up to the newest clock of its partitions."""
    ahead: list[HoursAhead]
    """The sources that have hours after that."""
    site: str | None
    """The overview page of the audits. Null: there is none."""


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
    away = absent_topics(project.workspace)
    hours_of, metrics = sum_up_hours(connection)
    sources = [
        _source(connection, source, offsets[source.name], away, hours_of.get(source.name, SourceHours()))
        for source in project.sources.values()
    ]
    reached = _reached(sources)
    rows = connection.sql(
        f"SELECT hour, name AS source, state, events, late, closed FROM hours WHERE kind = 'source' AND ({reached}) "
        f"QUALIFY row_number() OVER (PARTITION BY name ORDER BY hour DESC) <= {last} ORDER BY source, hour"
    )
    found = rows.to_arrow_table().to_pylist()
    found_ahead = connection.sql(
        "SELECT name AS source, count(*) AS hours, sum(events)::BIGINT AS events, min(hour) AS first, "
        f"max(hour) AS last FROM hours WHERE kind = 'source' AND NOT ({reached}) GROUP BY name ORDER BY name"
    )
    pages = _pages(connection, [row["hour"] for row in found])
    hours = [HourStatus(**row, report=pages.get((row["source"], row["hour"]))) for row in found]
    ahead = [HoursAhead(**row) for row in found_ahead.to_arrow_table().to_pylist()]
    wrong = list_wrong(project, sources, ahead, find_problems(connection).open, connection.taken)
    return ProjectStatus(
        project=project.name,
        **dict(report_speed_state(project)),
        wrong=wrong,
        sources=sorted(sources, key=lambda source: _need(source, wrong)),
        metrics=metrics,
        changing=list_changes(connection),
        lacking=[
            LackingMetric(metric=one.metric, closed=len(one.closed), open=len(one.open), words=one.in_words())
            for one in connection.missing
        ],
        hours=hours,
        ahead=ahead,
        site=str(index) if (index := report_site(project) / "index.html").exists() else None,
    )


def _reached(sources: Iterable[SourceStatus]) -> str:
    """The condition that an hour of the view ``hours`` is not after the newest clock of its source's partitions. A
    source may have hours and no clock: decoding anew has accepted what was rejected when it arrived.
    """
    conditions = []
    for source in sources:
        clocks = [clock for clock in (source.clock, *(known.clock for known in source.partitions)) if clock]
        until = f" AND hour <= {literal(max(clocks))}" if clocks else ""
        conditions.append(f"(name = {literal(source.source)}{until})")
    return " OR ".join(conditions) or "false"


def _need(source: SourceStatus, wrong: list[Wrong]) -> tuple[object, ...]:
    """A key that sorts sources by their need of a look: what fails, what warns, the weakest state, the lag, the
    name.
    """
    found = {one.severity for one in wrong if one.source == source.source}
    strength = len(WEAKEST_FIRST) if source.state is None else WEAKEST_FIRST.index(source.state)
    return "fail" not in found, "warn" not in found, strength, -(source.lag or 0), natural_key(source.source)


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
        missing = connection.missing_of(pending.metric, pending.declaration)
    return ChangingMetric(
        metric=pending.metric,
        declaration=pending.declaration,
        served=pending.served,
        served_since=pending.served_since,
        missing=missing.count if missing else 0 if pending.is_started else None,
        words=pending.in_words(missing),
    )


def _source(
    connection: Connection,
    source: Source,
    offsets: SourceOffsets | Unknown,
    away: Mapping[str, datetime],
    hours: SourceHours,
) -> SourceStatus:
    """The status of one source. ``away`` are the topics that the speed layer waits for, and since when (UTC)."""
    waits_for = [AbsentTopic(topic=topic, since=away[topic]) for topic in names_of(source.topic) if topic in away]
    if source.name not in connection.snapshot.progress:
        counts: dict[str, Any] = dict.fromkeys(("sequence", "skipped", "late", "quarantined", *COUNTS), 0)
        in_kafka = _in_kafka({}, offsets if isinstance(offsets, Unknown) else offsets.topics)
        return SourceStatus(
            source=source.name,
            gaps=[],
            clock=None,
            finished=None,
            waits_for=waits_for,
            partitions=[],
            **vars(hours),
            **counts,
            **in_kafka,
        )
    sequence = connection.snapshot.progress[source.name].sequence
    (counts,) = connection.sql(counts_sql(source, sequence)).to_arrow_table().to_pylist()
    readings = find_readings(connection, source, sequence)
    known = offsets_of_known(connection, source, sequence, readings, offsets)
    return SourceStatus(
        source=source.name,
        sequence=sequence,
        gaps=list_gaps(connection, source.name),
        quarantined=_count_quarantined(connection, source, sequence),
        skipped=sum(offsets_in(ranges) for of in readings.values() for ranges in of.reading.skipped.values()),
        waits_for=waits_for,
        partitions=report_partitions(connection, source, readings, {} if isinstance(known, Unknown) else known),
        **vars(hours),
        **counts,
        **_in_kafka(readings, known),
    )


def _count_quarantined(connection: Connection, source: Source, sequence: int) -> int:
    """The rows of the quarantine that are about the declarations that are served."""
    query = quarantined_sql(connection.snapshot, source, sequence)
    return int(connection.sql(f"SELECT events FROM ({query})").fetchall()[0][0]) if query else 0


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
