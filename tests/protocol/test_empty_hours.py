"""An hour without events is planned, recomputed, audited and published like any other, by the product's own pipeline,
and without Spark. An event that comes into it later counts, whenever it comes.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from airflow.partition_mappers.base import RollupMapper
from airflow.partition_mappers.temporal import StartOfDayMapper
from airflow.partition_mappers.window import DayWindow
from deltalake import DeltaTable, write_deltalake

import serving_layer
from batch_layer import recompute as recomputing
from batch_layer.job import open_job
from batch_layer.plan import PlannedHour, plan
from batch_layer.publication import Publication
from batch_layer.publish import Recomputed
from batch_layer.recompute import recompute
from batch_layer.recompute_outcome import results_since
from hourline.airflow import PARTITION_KEY
from hourline_core.model import Field
from hourline_core.model.hours import parse_hour, wall_clock
from serving_layer.reports.kafka_offsets import SourceOffsets
from serving_layer.reports.lineage import explain_number
from serving_layer.reports.quality import report_quality
from serving_layer.reports.status import report_status
from tests.support.bare_tables import BASE, METRICS, SOURCE, BareTables, expected, hour

EVENTS = [0, 0, 3, 6, 2, 2]
"""The hours of the events. The first four make the clock 6:00, so hours 1 and 2 are over, and 4 and 5, too."""


class SparkStarted(Exception):  # noqa: N818 (it is what happens, and no error)
    """A recompute wants to compute something."""


class CrashError(Exception):
    """The process dies here."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise SparkStarted

    monkeypatch.setattr(recomputing, "spark_session", start)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BareTables]:
    """Events in hours 0, 3 and 6; the two events of hour 2 are still to come."""
    tables = BareTables(tmp_path, EVENTS)
    tables.start()
    tables.micro_batch(4)
    yield tables
    tables.check()


def states(tables: BareTables, metric: str = "totals") -> dict[int, tuple[str, int, bool]]:
    """By hour: the state, the number of events, and whether it has closed."""
    with serving_layer.connect(tables.project) as connection:
        rows = connection.sql(f"SELECT hour, state, events, closed FROM hours WHERE name = '{metric}'").fetchall()
        of_source = "SELECT hour, state, events, closed FROM hours WHERE kind = 'source' ORDER BY hour"
        shown = report_status(connection, 24, {SOURCE.name: SourceOffsets({})}).hours
        assert [(one.hour, one.state, one.events, one.closed) for one in shown] == connection.sql(of_source).fetchall()
    return {number_of(moment): (state, events, closed) for moment, state, events, closed in rows}


def number_of(moment: datetime) -> int:
    return next(number for number in range(24) if hour(number) == moment)


def empty(tables: BareTables) -> list[PlannedHour]:
    return [item for item in plan(tables.project) if item.events == 0]


def test_a_plan_has_the_closed_hours_without_events(tables: BareTables) -> None:
    planned = {(item.metric, number_of(item.hour)): (item.reason, item.events) for item in plan(tables.project)}
    counts = {0: 2, 1: 0, 2: 0, 3: 1, 4: 0}
    assert planned == {
        (metric, number): ("never covered", count) for metric in METRICS for number, count in counts.items()
    }
    assert states(tables)[5] == ("provisional", 0, False), "over, and open by the grace"


def test_hours_without_events_are_published_without_spark(tables: BareTables) -> None:
    (done,) = recompute(tables.project, empty(tables))
    assert sorted(done.published) == sorted((metric, hour(number)) for metric in METRICS for number in (1, 2, 4))
    assert (done.blocked, done.events) == ([], 0)
    assert {number: state for number, (state, *_) in states(tables).items()} == {
        **dict.fromkeys((0, 3, 5, 6), "provisional"),
        **dict.fromkeys((1, 2, 4), "final"),
    }
    assert empty(tables) == []
    for table in ("final", "staged"):
        for path in sorted(Path(tables.layout.root, table).glob("*/*")):
            assert DeltaTable(path).to_pyarrow_table().num_rows == 0
    with serving_layer.connect(tables.project) as connection:
        published = connection.sql("SELECT DISTINCT hour FROM publications WHERE current ORDER BY hour").fetchall()
        assert [number_of(moment) for (moment,) in published] == [1, 2, 4]
        explained = explain_number(connection, "totals", hour(1))
    assert (explained.state, explained.groups, explained.events.events) == ("final", 0, 0)
    assert [answer.value for answer in explained.answer] == [None]
    assert explained.audit and explained.audit.outcome == "passed"
    with pytest.raises(SparkStarted):
        recompute(tables.project, plan(tables.project))


def test_each_hour_without_events_has_findings_of_its_own(tables: BareTables) -> None:
    recompute(tables.project, empty(tables))
    for number in (1, 2, 4):
        with serving_layer.connect(tables.project) as connection:
            audits = report_quality(connection, hour(number)).hours
        assert {audit.metric for audit in audits} == set(METRICS)
        for audit in audits:
            assert audit.outcome == "passed"
            about = {finding.about for finding in audit.findings}
            assert {"events in the archive, events in progress", "number of rows, number of groups"} <= about


def test_an_event_in_the_archive_that_progress_does_not_know_blocks_its_hour(tables: BareTables) -> None:
    archive = DeltaTable(tables.layout.events(SOURCE))
    row = archive.to_pyarrow_table().slice(0, 1)
    moments = pa.array([hour(1)], row.schema.field("hour").type)
    for column in ("hour", "event_time"):
        row = row.set_column(row.schema.get_field_index(column), row.schema.field(column), moments)
    write_deltalake(archive, row, mode="append")
    (done,) = recompute(tables.project, empty(tables))
    assert sorted(done.blocked) == sorted((metric, hour(1)) for metric in METRICS)
    with serving_layer.connect(tables.project) as connection:
        (audit, _) = report_quality(connection, blocked=True).hours
    assert [finding.found for finding in audit.findings] == [
        "events in the archive: 1, events in progress: 0",
        "events read: 0, events to read: 1",
    ]
    assert states(tables)[1] == ("blocked", 0, True)
    assert states(tables)[2] == ("final", 0, True)


def test_a_field_that_is_required_from_now_on_is_looked_for_in_all_records_first(tables: BareTables) -> None:
    """Also for hours without events: one of the records that were rejected may lie there."""
    newer = SOURCE.model_copy(update={"fields": {**SOURCE.fields, "shop": Field(type="string", required=True)}})
    project = replace(tables.project, sources={SOURCE.name: newer})
    with pytest.raises(SparkStarted):
        recompute(project, empty(tables))


def test_an_event_of_an_hour_published_without_events_revises_it(tables: BareTables) -> None:
    recompute(tables.project, empty(tables))
    tables.micro_batch(2)
    assert states(tables)[2] == ("revised", 2, True)
    tables.check()
    (item,) = [item for item in plan(tables.project) if item.metric == "totals" and item.hour == hour(2)]
    assert (item.reason, item.events) == ("revised", 2)
    tables.publish(2)
    assert states(tables)[2] == ("final", 2, True)
    assert answer(tables)[hour(2)] == 2


def test_an_event_that_comes_after_the_plan_is_not_published_as_none(tables: BareTables) -> None:
    planned = empty(tables)
    tables.micro_batch(2)
    with open_job(tables.project, planned, wall_clock, lambda: pytest.fail("nothing is computed here")) as job:
        assert {number_of(item.hour): item.events for item in job.hours} == {1: 0, 2: 2, 4: 0}
    with pytest.raises(SparkStarted):
        recompute(tables.project, planned)
    others = [item for item in planned if item.hour != hour(2)]
    recompute(tables.project, others)
    assert states(tables)[2] == ("provisional", 2, True)
    assert answer(tables)[hour(2)] == 2


@pytest.mark.parametrize("step", ["_overwrite_final", pytest.param("_commit_coverage", marks=pytest.mark.long)])
def test_killed_between_two_commits_it_is_done_again(tables: BareTables, step: str) -> None:
    before = states(tables)
    with patch.object(Publication, step, side_effect=CrashError), pytest.raises(CrashError):
        recompute(tables.project, empty(tables))
    assert states(tables) == before
    tables.micro_batch(2)
    done: list[Recomputed] = recompute(tables.project, empty(tables))
    assert {number_of(moment) for moment in done[0].hours} == {1, 4}
    tables.publish(2)
    assert {number: states(tables)[number][:2] for number in (1, 2, 4)} == {
        1: ("final", 0),
        2: ("final", 2),
        4: ("final", 0),
    }


def test_the_columns_of_an_empty_result_are_those_that_spark_has_made(tables: BareTables) -> None:
    tables.publish(0, 3)
    columns = {path: DeltaTable(path).to_pyarrow_table().schema for path in final_tables(tables)}
    recompute(tables.project, empty(tables))
    assert {path: DeltaTable(path).to_pyarrow_table().schema for path in final_tables(tables)} == columns


def final_tables(tables: BareTables) -> list[Path]:
    return sorted(Path(tables.layout.root, "final").glob("*/*"))


def answer(tables: BareTables) -> dict[Any, Any]:
    with serving_layer.connect(tables.project) as connection:
        found = dict(connection.sql("SELECT hour, n FROM totals").fetchall())
    assert found == expected("totals", EVENTS[: tables.offset])
    return found


def test_a_day_with_a_quiet_night_is_whole_for_airflows_own_rollup(tmp_path: Path) -> None:
    """The rollup is that of the guide; without the hours of the night, it would wait for ever."""
    quiet = range(1, 6)
    day = [number for number in range(24) if number not in quiet]
    tables = BareTables(tmp_path, [*day, 26])
    tables.start()
    tables.micro_batch(len(tables.hours))
    tables.publish(*day)
    rollup = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())
    (key,) = {rollup.to_downstream(key) for key in partition_keys(tables)}
    assert rollup.to_upstream(str(key)) - partition_keys(tables) == {
        f"2024-03-01T{number:02}:00:00" for number in quiet
    }
    recompute(tables.project, empty(tables))
    assert rollup.to_upstream(str(key)) <= partition_keys(tables)


def partition_keys(tables: BareTables) -> set[str]:
    """The keys of what has been published, as the tasks of the DAGs give them to the asset."""
    published = results_since(tables.project, BASE)["published"]["totals"]
    return {f"{parse_hour(text):{PARTITION_KEY}}" for text in published}
