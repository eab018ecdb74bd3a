"""Runs a test once as it is given: the records up to each recompute are a micro-batch, and a recompute takes the hours
that are closed by then. The tables are real, and each recompute is audited.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from batch_layer.job import open_job
from batch_layer.plan import plan, plan_range
from batch_layer.publication import Publication
from batch_layer.recompute import run_job
from hourline_core.model import Project
from hourline_core.model.given_records import RECOMPUTE_ALL, GivenRecord
from hourline_core.model.hours import Clock, HourRange
from hourline_core.model.loaded_tests import LoadedTest
from hourline_core.sql.literals import identifier
from serving_layer.connection import Connection
from speed_layer.rehearsal import Rehearsal

_ALL = HourRange(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Outcome:
    """What there is at the end of a test."""

    rows: Mapping[str, pa.Table]
    """By metric, those of its view."""
    rejected: int
    """The number of rejected records."""
    reasons: list[str]
    """Why they were rejected."""


def run_as_given(spark: SparkSession, project: Project, test: LoadedTest, arrived: datetime) -> Outcome:
    """Run ``test`` in the workspace of ``project``, which is empty. The records arrive at ``arrived`` (UTC), which is
    the time of all else, too. Raises as a recompute does.
    """

    def clock() -> datetime:
        return arrived

    rehearsal = Rehearsal(spark, project, project.sources[test.source.name], clock)
    evaluated = rehearsal.evaluate(test.declared.records, test.name, arrived)
    first = end = rejected = 0
    sequence = rehearsal.tables.first_sequence
    for item in (*test.declared.given, None):
        if isinstance(item, GivenRecord):
            end += 1
            continue
        if end > first:
            rejected += rehearsal.commit(evaluated, first, end, sequence).rejected
            first, sequence = end, sequence + 1
        if item is not None and end:
            _recompute(spark, project, clock, includes_open=item == RECOMPUTE_ALL)
    with Connection(project, clock) as connection:
        rows = {metric: connection.sql(f"FROM {identifier(metric)}").to_arrow_table() for metric in test.metrics}
        reasons = connection.sql(f"SELECT DISTINCT reason FROM rejected_{test.source.name} ORDER BY ALL").fetchall()
    return Outcome(rows, rejected, [reason for (reason,) in reasons])


def _recompute(spark: SparkSession, project: Project, clock: Clock, *, includes_open: bool) -> None:
    """Recompute the hours that the plan has; or all hours, also open ones."""
    if planned := plan_range(project, _ALL, clock=clock) if includes_open else plan(project, clock=clock):
        publication = Publication(project)
        with open_job(project, planned, clock, lambda: spark) as job:
            run_job(publication, job)
