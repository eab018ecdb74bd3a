"""What `hourline status` shows: how far each source has come, and the state of its last hours."""

from datetime import datetime

from hourline_core.errors import BrokerError
from hourline_core.ledger.read_offsets import FILE, Reading, offsets_in, reading_of
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.ledger.snapshot import MetricTables
from hourline_core.model import Project, Source, declaration_hash
from hourline_core.runtime.lease import lease_holder
from serving_layer.connection import Connection
from serving_layer.described import Described


class SourceStatus(Described):
    """One source; counts are since the beginning, ``clock`` is its highest accepted event time (UTC)."""

    source: str
    sequence: int
    records: int
    accepted: int
    rejected: int
    duplicates: int
    tombstones: int
    late: int
    skipped: int
    """Offsets that a reset has jumped over and nothing has read since."""
    lag: int | None
    """Records in Kafka that no finished micro-batch has read; None: Kafka cannot be reached."""
    clock: datetime | None
    finished: datetime | None
    """When its last micro-batch was finished (UTC)."""


class HourStatus(Described):
    """One hour of one source, in the weakest state of its metrics (None: it has no metric)."""

    hour: datetime
    source: str
    state: str | None
    events: int
    late: int
    closed: bool
    report: str | None
    """The path of the Data Docs page of its newest audit: of a metric that is blocked, or else warned, where there is
    one. None: there is no such page (any more).
    """


class ChangingMetric(Described):
    """A metric that answers by an older declaration than the one in its YAML."""

    metric: str
    missing: int | None
    """So many hours want recomputing before the new declaration takes over; None: the speed layer has not started since
    it was changed.
    """


class ProjectStatus(Described):
    """The whole report."""

    project: str
    speed: str
    sources: list[SourceStatus]
    changing: list[ChangingMetric]
    hours: list[HourStatus]


def project_status(project: Project, last: int) -> ProjectStatus:
    """The status of ``project`` with the ``last`` hours of each source."""
    with Connection(project) as connection:
        return status_at(connection, last)


def status_at(connection: Connection, last: int) -> ProjectStatus:
    """The status of the project with the ``last`` hours of each source, by the connection's snapshot."""
    project = connection.project
    pid = lease_holder(project.workspace, "speed")
    speed = (
        f"the speed layer runs (process {pid})" if pid else "the speed layer is not running; `hourline up` starts it"
    )
    standby = lease_holder(project.workspace, "standby")
    if standby:
        speed += f"; process {standby} stands by"
    sources = [
        _source(connection, source)
        for source in project.sources.values()
        if source.name in connection.snapshot.progress
    ]
    rows = connection.sql(
        "SELECT hour, name AS source, state, events, late, closed FROM hours WHERE kind = 'source' "
        f"QUALIFY row_number() OVER (PARTITION BY name ORDER BY hour DESC) <= {last} ORDER BY source, hour"
    )
    found = rows.to_arrow_table().to_pylist()
    pages = _pages(connection, [row["hour"] for row in found])
    hours = [HourStatus(**row, report=pages.get((row["source"], row["hour"]))) for row in found]
    waiting = [changing(connection, tables) for tables in connection.snapshot.served]
    return ProjectStatus(
        project=project.name, speed=speed, sources=sources, changing=[item for item in waiting if item], hours=hours
    )


def _pages(connection: Connection, hours: list[datetime]) -> dict[tuple[str, datetime], str]:
    """By source and hour, the page of its newest audit."""
    if not hours:
        return {}
    rows = connection.sql(f"""
        WITH audits AS (
            SELECT source, hour, metric, declaration, publication, bool_and(success) AS passed FROM hourline.quality
            WHERE hour >= TIMESTAMPTZ '{min(hours).isoformat()}' AND origin <> 'person' AND metric IS NOT NULL GROUP BY ALL
        ), newest AS (FROM audits QUALIFY publication = max(publication) OVER (PARTITION BY metric, declaration, hour))
        SELECT n.source, n.hour, n.metric, n.publication FROM newest n JOIN hourline.metric_hours h USING (metric, declaration, hour)
        QUALIFY row_number() OVER (PARTITION BY n.source, n.hour ORDER BY h.blocked_cutoff NULLS LAST, passed, n.publication DESC, n.metric) = 1
        """).fetchall()
    site = report_site(connection.project)
    addressed = {
        (source, hour): site / page_path(publication, page_name(source, metric))
        for source, hour, metric, publication in rows
    }
    return {key: str(page) for key, page in addressed.items() if page.is_file()}


def changing(connection: Connection, served: MetricTables) -> ChangingMetric | None:
    """How far the metric is that is to take over from what is ``served``; None: there is none."""
    project, name = connection.project, served.metric.name
    current = declaration_hash(project.sources[served.source.name], project.metrics[name])
    if current == served.declaration:
        return None  # another description, say
    if current not in {tables.declaration for tables in connection.snapshot.metrics if tables.metric.name == name}:
        return ChangingMetric(metric=name, missing=None)
    rows = connection.sql(
        f"FROM hourline.metric_hours WHERE metric = '{name}' AND declaration = '{current}' AND state = 'missing'"
    ).fetchall()
    return ChangingMetric(metric=name, missing=len(rows))


def _source(connection: Connection, source: Source) -> SourceStatus:
    known = connection.snapshot.progress[source.name]
    columns = ", ".join(
        f"coalesce(sum({name}), 0)::BIGINT AS {name}"
        for name in ("records", "accepted", "rejected", "duplicates", "tombstones")
    )
    sums = connection.sql(
        f"SELECT {columns}, coalesce(sum(list_sum(list_transform(hours, lambda h: h.late))), 0)::BIGINT AS late, "
        f"max(clock) AS clock, max(finished) AS finished FROM hourline.progress_{source.name} WHERE sequence <= {known.sequence}"
    )
    (row,) = sums.to_arrow_table().to_pylist()
    reading = _reading(connection, source, known.sequence)
    skipped = sum(offsets_in(ranges) for ranges in reading.skipped.values())
    return SourceStatus(
        source=source.name, sequence=known.sequence, skipped=skipped, lag=_lag(connection, source, reading), **row
    )


def _reading(connection: Connection, source: Source, sequence: int) -> Reading:
    """How far the topic that was read last has been read; what was imported from files does not matter."""
    progress = f"hourline.progress_{source.name} WHERE sequence <= {sequence} AND NOT starts_with(topic_id, '{FILE}')"
    rows = connection.sql(
        f"SELECT sequence, topic_id, offsets, position FROM {progress} ORDER BY sequence"
    ).to_arrow_table()
    return reading_of(rows, rows["topic_id"][-1].as_py() if rows.num_rows else None)


def _lag(connection: Connection, source: Source, reading: Reading) -> int | None:
    try:
        from hourline_core.runtime.kafka import reachable_kafka
        from hourline_core.runtime.topics import topic_offsets
    except ImportError:  # the serving side alone comes without a Kafka client
        return None
    try:
        available = topic_offsets(
            reachable_kafka(connection.project), source.topic, connection.project.settings.kafka.options
        )
    except BrokerError:
        return None
    return sum(
        latest - max(reading.next_offsets.get(partition, 0), earliest)
        for partition, (earliest, latest) in available.items()
    )
