"""Faults that an audit must find, from the archive to staging. Each lasts as long as its `with` block."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.audit.validator import Validator
from batch_layer.read_archive import ArchivedEvents
from batch_layer.stage import StagedMetric, stage_metric
from batch_layer.tiles_and_totals import HourTotals, compute_tiles_and_totals
from hourline_core.compute.archive import from_archive
from hourline_core.model.scratch_columns import COUNTS
from tests.support.audited_project import FIRST, SECOND
from tests.support.stack_project import StackProject


@contextmanager
def damaged_archive(project: StackProject) -> Iterator[None]:
    """Somebody deletes events by hand."""
    table = DeltaTable(project.project.tables + "/events/scans")
    version = table.version()
    table.delete(f"hour = '{FIRST.isoformat()}' AND depot = 'north'")
    yield
    table.restore(version)


@contextmanager
def wrong_tiles(changes: Mapping[str, Callable[[pa.Table, pa.Table], pa.Table]]) -> Iterator[None]:
    """The aggregation is at fault: the change of a metric is given the tiles of the other hours and those of FIRST."""

    def faulty(aggregation: Any, events: Any) -> tuple[pa.Table, HourTotals]:
        tiles, totals = compute_tiles_and_totals(aggregation, events)
        change = changes.get(aggregation.metric.name)
        return (change(*split(tiles)) if change else tiles), totals

    with patch("batch_layer.aggregate.compute_tiles_and_totals", faulty):
        yield


def split(tiles: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of the other hours, and those of FIRST."""
    here = pc.equal(tiles["hour"], pa.scalar(FIRST, tiles.schema.field("hour").type))
    return tiles.filter(pc.invert(here)), tiles.filter(here)


@contextmanager
def events_not_read() -> Iterator[None]:
    """Spark leaves out some events of FIRST, so its tiles and its totals agree."""
    mark_counted = ArchivedEvents.mark_counted

    def faulty(events: ArchivedEvents) -> Any:
        missed = f"_hourline_hour = timestamp '{FIRST:%Y-%m-%d %H:%M:%S}' AND depot = 'north'"
        return mark_counted(events).where(f"NOT coalesce({missed}, false)")

    with patch.object(ArchivedEvents, "mark_counted", faulty):
        yield


@contextmanager
def a_required_field_is_not_read() -> Iterator[None]:
    """Spark has null in its place. By the source's ``where`` no event counts then, and no hour has rows or totals."""

    def faulty(events: DataFrame, source: Any) -> DataFrame:
        return from_archive(events, source).withColumn("depot", F.lit(None).cast("string"))

    with patch("batch_layer.read_archive.from_archive", faulty):
        yield


@contextmanager
def wrong_condition(condition: Callable[[Any], str]) -> Iterator[None]:
    """The tiles have the events that fulfil ``condition`` of a metric."""
    with patch("batch_layer.tiles_and_totals._in_tiles", lambda metric: F.expr(condition(metric))):
        yield


@contextmanager
def a_tile_is_lost_when_staged(name: str) -> Iterator[None]:
    """A tile of the metric ``name``."""

    def faulty(project: Any, metric: Any) -> StagedMetric:
        others, tiles = split(metric.rows)
        lost = replace(metric, rows=pa.concat_tables([others, tiles.slice(1)]))
        return stage_metric(project, lost if metric.aggregation.metric.name == name else metric)

    with patch("batch_layer.stage.stage_metric", faulty):
        yield


@contextmanager
def a_tile_is_lost_or_all_are() -> Iterator[None]:
    # Great Expectations by itself passes on no rows.
    with a_tile_is_lost_when_staged("flow"), wrong_tiles({"fragile": lambda others, tiles: others}):
        yield


def every_fault(project: StackProject) -> dict[str, tuple[AbstractContextManager[Any], set[datetime]]]:
    """By name: the fault, and the hours that it touches. Of two faults, each metric has one: it is audited alone."""
    return {
        "events are missing in the archive": (damaged_archive(project), {FIRST}),
        "events are not read": (events_not_read(), {FIRST}),
        "a required field is not read": (a_required_field_is_not_read(), {FIRST, SECOND}),
        "events that do not count are in the tiles, or those of the other metric": (
            wrong_condition(lambda metric: COUNTS if metric.where else "true"),
            {FIRST, SECOND},
        ),
        "a row is lost when it is staged, or there are no rows": (a_tile_is_lost_or_all_are(), {FIRST}),
        "a group is lost, or there twice": (
            wrong_tiles(
                {
                    "flow": lambda others, tiles: pa.concat_tables([others, tiles.slice(1)]),
                    "fragile": lambda others, tiles: pa.concat_tables([others, tiles, tiles.slice(0, 1)]),
                }
            ),
            {FIRST},
        ),
        "the audit itself falls over": (
            patch.object(Validator, "evaluate_results", side_effect=RuntimeError("out of memory")),
            {FIRST, SECOND},
        ),
    }
