"""Merges micro-batches and recomputed hours by the views of the serving layer, over tables in memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import duckdb
import pyarrow as pa

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger import coverage_rows, progress_rows
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.coverage_rows import CoveredHour
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, WrittenMetric
from hourline_core.ledger.snapshot import Snapshot, SourceProgress
from hourline_core.model import Project, Source
from hourline_core.sql.attach_on_demand import AttachedParts, Part
from hourline_core.sql.database import connect
from hourline_core.sql.literals import identifier
from hourline_core.sql.tables import table_parts
from hourline_core.sql.user_functions import install_functions
from serving_layer.views import view_parts
from speed_layer.intake.read_micro_batch import Read

_FIRST = 1
"""The sequence of the first micro-batch."""
_VERSION = 1
"""That of each table in memory."""


@dataclass(frozen=True)
class Final:
    """What recomputes have left of one metric."""

    tiles: pa.Table
    cutoffs: Mapping[datetime, int]
    """The covered hours (UTC)."""


class MergedTables:
    """A DuckDB in memory for the tests of ``source``. ``plans`` are its metrics."""

    def __init__(self, project: Project, source: Source, plans: Collection[AggregationPlan]) -> None:
        self._project, self._source, self._plans = project, source, plans
        self._connection = connect()
        self._connection.execute("SET threads = 1")  # Tables of some rows are read faster by one.
        install_functions(self._connection, [plan.metric for plan in plans])

    def rows(self, reads: Sequence[Read], final: Mapping[str, Final], views: Collection[str]) -> dict[str, pa.Table]:
        """The rows of each of ``views`` after the micro-batches ``reads``, of which no other has read anything.
        ``final`` is by metric.
        """
        tables = _tables(self._source, self._plans, reads, final)
        metrics = [
            MetricTables(self._source, plan.metric, _VERSION, _FIRST, _VERSION if plan.metric.name in final else None)
            for plan in self._plans
        ]
        progress = {self._source.name: SourceProgress(_VERSION, reads[-1].sequence)}
        snapshot = Snapshot(progress, metrics, Coverage(tables["coverage"], _VERSION), {})
        self._drop_all()
        # Of parts with the same name, the last one counts.
        parts = AttachedParts(
            self._connection,
            [
                *table_parts(self._project, snapshot, reads[-1].started),
                *view_parts(self._project, snapshot),
                *_own_parts(self._connection, tables),
            ],
        )
        parts.attach(self._connection, set(views))
        return {view: self._connection.execute(f"FROM {identifier(view)}").to_arrow_table() for view in views}

    def _drop_all(self) -> None:
        """Drop what the case before has left. To make a connection takes longer."""
        views = self._connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary AND schema_name = 'main'"
        ).fetchall()
        for (view,) in views:
            self._connection.execute(f"DROP VIEW {identifier(view)}")
        self._connection.execute("DROP SCHEMA IF EXISTS hourline CASCADE")


def _own_parts(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> Iterator[Part]:
    """The parts that make the tables in schema ``hourline`` of rows in memory."""
    for name, rows in tables.items():
        connection.register(f"given_{name}", rows)
        create = f"CREATE TABLE hourline.{name} AS FROM given_{name}"
        yield Part((f"hourline.{name}",), (), partial(_only, create))


def _only(statement: str, _: duckdb.DuckDBPyConnection) -> list[str]:
    return [statement]


def _tables(
    source: Source, plans: Collection[AggregationPlan], reads: Sequence[Read], final: Mapping[str, Final]
) -> dict[str, pa.Table]:
    written = tuple(WrittenMetric(plan.metric.name, plan.declaration, _FIRST) for plan in plans)
    progress = progress_rows.to_arrow(_progress(read, written) for read in reads)
    covered: list[CoveredHour] = []
    tables = {f"progress_{source.name}": progress}
    for plan in plans:
        tables[f"provisional_{plan.name}"] = _provisional(plan, reads)
        if of_metric := final.get(plan.metric.name):
            tables[f"final_{plan.name}"] = of_metric.tiles
            covered += [
                CoveredHour(plan.metric.name, plan.declaration, source.name, hour, cutoff, _VERSION, reads[-1].started)
                for hour, cutoff in of_metric.cutoffs.items()
            ]
    return {**tables, "coverage": coverage_rows.to_arrow(covered)}


def _provisional(plan: AggregationPlan, reads: Sequence[Read]) -> pa.Table:
    numbered = pa.schema([*plan.schema, pa.field("sequence", pa.int64())])
    tiles = [
        rows.append_column("sequence", pa.array([read.sequence] * rows.num_rows, pa.int64())).cast(numbered)
        for read in reads
        for rows in read.part.tiles.get(plan.name, ())
    ]
    return pa.concat_tables([numbered.empty_table(), *tiles])


def _progress(read: Read, written: tuple[WrittenMetric, ...]) -> ProgressRow:
    ((topic_id, offsets),) = read.offsets.items()
    of_topic = read.part.topics[topic_id]
    return ProgressRow(
        read.sequence,
        topic_id,
        topic_id,
        offsets,
        of_topic.counts,
        tuple(HourEvents(hour, events, late=0) for hour, events in sorted(of_topic.hours.items())),
        written,
        read.clock.time,
        read.started,
        read.started,
        partitions=read.clock.partitions,
    )
