"""Reports how far each source has come, and the state of its last hours: `hourline status`."""

from hourline_core.ledger.report_pages import report_site
from hourline_core.model import Project
from hourline_core.model.hour_state import WEAKEST_FIRST
from hourline_core.model.natural_order import natural_key
from serving_layer.connection import Connection
from serving_layer.reports.changing_metrics import ChangingMetric, LackingMetric, list_changes, list_lacking
from serving_layer.reports.findings import find_findings
from serving_layer.reports.hour_summary import MetricStatus, sum_up_hours
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets
from serving_layer.reports.newest_hours import HoursAhead, HourStatus, list_hours_ahead, list_newest_hours
from serving_layer.reports.problems import find_problems
from serving_layer.reports.recomputing import Recomputation, report_recomputing
from serving_layer.reports.source_status import SourceStatus, report_sources
from serving_layer.reports.speed_state import SpeedState, report_speed_state
from serving_layer.reports.wrong import Wrong, list_wrong


class ProjectStatus(SpeedState):
    """The status of a project."""

    project: str
    """The name of the project."""
    recomputing: list[Recomputation]
    """The recomputes that run, the one that began first at the beginning."""
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
    hours_of, metrics = sum_up_hours(connection)
    sources = report_sources(connection, offsets, hours_of)
    ahead = list_hours_ahead(connection, sources)
    problems = find_problems(connection, with_usual=False).open
    wrong = list_wrong(find_findings(connection), problems, ahead, sources, connection.taken)
    return ProjectStatus(
        project=project.name,
        **dict(report_speed_state(project)),
        recomputing=report_recomputing(project),
        wrong=wrong,
        sources=sorted(sources, key=lambda source: _need(source, wrong)),
        metrics=metrics,
        changing=list_changes(connection),
        lacking=list_lacking(connection),
        hours=list_newest_hours(connection, sources, last),
        ahead=ahead,
        site=str(index) if (index := report_site(project) / "index.html").exists() else None,
    )


def _need(source: SourceStatus, wrong: list[Wrong]) -> tuple[object, ...]:
    """A key that sorts sources by their need of a look: what fails, what warns, the weakest state, the lag, the
    name.
    """
    found = {one.severity for one in wrong if one.source == source.source}
    strength = len(WEAKEST_FIRST) if source.state is None else WEAKEST_FIRST.index(source.state)
    return "fail" not in found, "warn" not in found, strength, -(source.lag or 0), natural_key(source.source)
