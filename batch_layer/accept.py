"""A person overrules an audit: the staged rows of a blocked hour are published as they are, on record."""

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from batch_layer.publish import Publication, Staged
from batch_layer.reports.renewing import renew_overview
from batch_layer.seen_changes import hours_to_cover, seen_changes
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import UsageError
from hourline_core.ledger.layout import QUALITY_SCHEMA, Layout
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Metric, Project
from hourline_core.model.hours import Clock, hour_text
from hourline_core.runtime.lease import turn
from hourline_core.runtime.spark import spark_session
from hourline_core.sql.database import open_database
from hourline_core.sql.sketches import install_sketch_functions
from hourline_core.storage.tables import open_table


def accept(project: Project, metric: Metric, hour: datetime, person: str, reason: str, clock: Clock) -> None:
    """Publish the staged rows of a blocked ``hour`` (UTC) of ``metric``, up to the sequence they counted to; later
    events count on top.

    ``person`` and ``reason`` are kept in the quality table. ``clock`` dates the publication (UTC). Raises UsageError
    when the hour is not blocked, ConflictError when another process has published meanwhile, TableError.
    """
    with ExitStack() as started:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "batch", brief=True)
            started.callback(session.stop)
            return session

        started.enter_context(turn(project.workspace, "batch", lambda process: None))
        database, snapshot = started.enter_context(open_database(project, clock))
        install_sketch_functions(database)
        staged, publication = _staged(project, snapshot, metric, hour)
        uncovered = hours_to_cover(database)
        promotes = staged.aggregation.name in uncovered and uncovered[staged.aggregation.name] <= {hour}
        validated = replace(
            staged, drift=seen_changes(spark, project, database, snapshot, staged, promotes), promotes=promotes
        )
        moment = clock()
        publication.publish([validated], _record(validated, hour, f"{person}: {reason}", moment), moment)
        renew_overview(project, clock)


def _staged(project: Project, snapshot: Snapshot, metric: Metric, hour: datetime) -> tuple[Staged, Publication]:
    blocked = snapshot.blocked
    mark = blocked.get((metric.name, hour))
    if mark is None:
        there = ", ".join(hour_text(one) for name, one in sorted(blocked) if name == metric.name) or "none"
        raise UsageError(
            f"{hour_text(hour)} of metric '{metric.name}' is not blocked, so there is nothing to accept; blocked hours of it: {there}"
        )
    tables = next(tables for tables in snapshot.recomputed if tables.metric.name == metric.name)
    layout = Layout.of(project)
    table = open_table(layout.staged(tables.source, tables.metric), layout.storage_options, mark.staged)
    rows: pa.Table = table.to_pyarrow_table()
    # The columns are those of the table; nothing is computed, so it needs no Spark to tell them.
    aggregation = AggregationPlan(tables.source, tables.metric, {}, rows.schema)
    publication = Publication(project, [aggregation])
    of_hour = rows.filter(pc.equal(rows["hour"], pa.scalar(hour, rows.schema.field("hour").type)))
    return Staged(aggregation, of_hour, [hour], mark.blocked_cutoff, mark.staged, rows.schema), publication


def _record(staged: Staged, hour: datetime, words: str, moment: datetime) -> pa.Table:
    row = {
        "audited": moment,
        "source": staged.aggregation.source.name,
        "metric": staged.aggregation.metric.name,
        "declaration": staged.aggregation.declaration,
        "hour": hour,
        "cutoff": staged.cutoff,
        "expectation": "accepted",
        "about": "",
        "parameters": json.dumps({}),
        "origin": "person",
        "severity": "warn",
        "success": True,
        "found": words,
        "rows": [],
    }
    return pa.Table.from_pylist([row], QUALITY_SCHEMA)
