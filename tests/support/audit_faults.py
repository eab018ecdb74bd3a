"""Faults that an audit must find, from the archive to staging. Each lasts as long as its `with` block."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.audit.validator import Validator
from batch_layer.folding import plan
from batch_layer.folding.plan import FoldedMetric
from batch_layer.folding.run import Result, merge_shares
from batch_layer.stage import StagedMetric, stage_metric
from hourline_core.compute.archive import from_archive
from tests.support import parcels
from tests.support.audited_project import FIRST, SECOND
from tests.support.stack_project import StackProject
from tests.support.task_faults import (
    all_of_them,
    changed_choice,
    changed_reading,
    changed_sql,
    in_tasks,
    keep_last,
    not_one,
    without,
    without_values,
)

Faults = dict[str, tuple[AbstractContextManager[Any], set[datetime]]]
"""By name: the fault, and the hours that it touches."""


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

    def faulty(*of: Any) -> Result:
        merged = merge_shares(*of)
        return {
            name: (changes[name](*split(tiles)) if name in changes else tiles, totals)
            for name, (tiles, totals) in merged.items()
        }

    with patch("batch_layer.folding.run.merge_shares", faulty):
        yield


def split(tiles: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of the other hours, and those of FIRST."""
    here = pc.equal(tiles["hour"], pa.scalar(FIRST, tiles.schema.field("hour").type))
    return tiles.filter(pc.invert(here)), tiles.filter(here)


@contextmanager
def events_not_read() -> Iterator[None]:
    """Spark leaves out some events of FIRST, so its tiles and its totals agree."""

    def faulty(events: DataFrame, source: Any) -> DataFrame:
        missed = f"_hourline_hour = timestamp '{FIRST:%Y-%m-%d %H:%M:%S}' AND depot = 'north'"
        return from_archive(events, source).where(f"NOT coalesce({missed}, false)")

    with patch("batch_layer.read_archive.from_archive", faulty):
        yield


@contextmanager
def a_required_field_is_not_read() -> Iterator[None]:
    """Spark has null in its place. By the source's ``where`` no event counts then, and no hour has rows or totals."""

    def faulty(events: DataFrame, source: Any) -> DataFrame:
        return from_archive(events, source).withColumn("depot", F.lit(None).cast("string"))

    with patch("batch_layer.read_archive.from_archive", faulty):
        yield


@contextmanager
def wrong_conditions() -> Iterator[None]:
    """The tiles of a metric with a condition have the events that do not fulfil it, those of another all events."""
    folded = plan._folded

    def faulty(*of: Any) -> FoldedMetric:
        right = folded(*of)
        kept = right.tiles.conditions[:-1] if right.tiles.aggregation.metric.where else ()
        return replace(right, tiles=replace(right.tiles, conditions=kept))

    with patch.object(plan, "_folded", faulty):
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


def faults_of(project: StackProject) -> Faults:
    """Those of all folds, and those of how the events of ``project`` are read. Of two faults, each metric has one: it
    is audited alone.
    """
    is_native = project.project.metrics["flow"].measures.keys() <= {*parcels.NATIVE}
    return {**_faults_of_all_folds(project), **(_faults_in_tasks() if is_native else _faults_in_spark())}


def _faults_in_spark() -> Faults:
    """Spark reads the events, and tasks fold them."""
    return {
        "events are not read": (events_not_read(), {FIRST}),
        "a required field is not read": (a_required_field_is_not_read(), {FIRST, SECOND}),
    }


def _faults_in_tasks() -> Faults:
    """Tasks read and fold the events, and those of an hour are in several tasks."""
    return {
        "events are not read": (in_tasks(partial(changed_reading, partial(without, FIRST, "north"))), {FIRST}),
        "a required field is not read": (
            in_tasks(partial(changed_reading, partial(without_values, "depot"))),
            {FIRST, SECOND},
        ),
    }


def faults_of_ids_and_sql() -> Faults:
    """Those of what tasks make of the events that they have read."""
    both = {FIRST, SECOND}
    twice, first = {"(count(*))": "(2 * count(*))"}, {'(sum("scans")': '(min("scans")'}
    fewer = {"FROM events": "FROM (FROM events OFFSET 1) AS events"}
    return {
        "the last event of an id is kept": (in_tasks(keep_last), both),
        "all events of an id are kept": (in_tasks(partial(changed_choice, all_of_them)), both),
        "an id is lost": (in_tasks(partial(changed_choice, not_one)), both),
        "the SQL of a fold counts twice": (in_tasks(partial(changed_sql, "_fold_sql", twice)), both),
        "the SQL of a fold leaves an event out": (in_tasks(partial(changed_sql, "_fold_sql", fewer)), both),
        "the SQL of a merge keeps one part": (changed_sql("_merge_sql", first), both),
    }


def _faults_of_all_folds(project: StackProject) -> Faults:
    return {
        "events are missing in the archive": (damaged_archive(project), {FIRST}),
        "events that do not count are in the tiles, or those of the other metric": (
            wrong_conditions(),
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
            patch.object(Validator, "_run", side_effect=RuntimeError("out of memory")),
            {FIRST, SECOND},
        ),
    }
