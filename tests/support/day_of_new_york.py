"""A DAG of one's own that runs for each day in New York, and notes what is different from its last run."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import serving_layer
from hourline_core.feed.published import newest_publication
from tests.support import oracle, parcels
from tests.support.oracle import Body
from tests.support.scheduled_project import Scheduled, wait_for
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

DAG, METRIC, NOTES = "invoices_of_new_york", "flow_by_new_york", "restated.jsonl"
DECLARED = "from: flow\nwindow: {size: 1 day, zone: America/New_York}\n"
BEGIN = datetime(2025, 11, 2, 22, tzinfo=UTC)
"""An hour of the day that had 25 hours in New York, since the clocks were changed."""
DAY = f"{BEGIN:%Y-%m-%d}"

FILE = """
import json

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task

day = Asset(name="PROJECT.METRIC.windows", uri="hourline://PROJECT/METRIC/windows")
with DAG("NAME", schedule=PartitionedAssetTimetable(assets=day)):

    @task
    def restate(dag_run=None, triggering_asset_events=None):
        from hourline import connect
        from hourline.airflow import told_before

        key = dag_run.partition_key
        since = told_before(triggering_asset_events[day], key)
        of_day = f"metric = 'METRIC' AND (window_start AT TIME ZONE 'America/New_York')::DATE = '{key}'"
        count = "SELECT sum(scans) FROM METRIC m JOIN windows USING (window_start, window_end)"
        if since:
            count = "SELECT sum(coalesce(after::BIGINT, 0) - coalesce(before::BIGINT, 0)) FROM changes"
            of_day += " AND measure = 'scans'"
        with connect("ROOT", since=since) as results:
            ((scans,),) = results.sql(f"{count} WHERE {of_day}").fetchall()
        note = {"key": key, "run": dag_run.run_id, "since": since, "scans": int(scans or 0)}
        with open("ROOT/NOTES", "a") as notes:
            notes.write(json.dumps(note) + "\\n")

    restate()
"""


def dag_file(project: str, root: str) -> str:
    """The file for the DAG folder."""
    text = FILE
    for name, value in {"PROJECT": project, "METRIC": METRIC, "NAME": DAG, "ROOT": root, "NOTES": NOTES}.items():
        text = text.replace(name, value)
    return text


@dataclass(frozen=True)
class Run:
    """What a run of the DAG has noted of the day."""

    run: str
    since: str | None
    scans: int
    """How many more scans there are than when the day was told before. Of all, if it was not."""


def runs(scheduled: Scheduled) -> list[Run]:
    """What the runs for the day have noted, in their order. A run that is cleared has another note."""
    notes = scheduled.stack.root / NOTES
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [Run(one["run"], one["since"], one["scans"]) for one in map(json.loads, lines) if one["key"] == DAY]


def see_another_run(scheduled: Scheduled, before: Sequence[Run]) -> list[Run]:
    """The runs for the day, once there is one more than ``before``."""
    wait_for(lambda: len(runs(scheduled)) > len(before), f"{DAG} does not run for {DAY}")
    found = runs(scheduled)
    assert len(found) == len(before) + 1
    return found


def see_the_day_restated(scheduled: Scheduled, speed: SpeedProcess) -> None:
    """The day fires once when its last hours are final. It fires again with what has changed since then: history that a
    person imports, and a late event that a person recomputes. Its run reads the same when it is cleared, and nothing when
    its month is backfilled while nobody tells. The speed layer is stopped, and the hourly DAG paused.
    """
    stack, first = scheduled.stack, see_another_run(scheduled, ())
    # More runs of this DAG would find nothing to do, and take time from what is waited for.
    scheduled.pause(scheduled.dag("hourly_recompute"), True)
    stack.send("scans", [_scan("late", hour=1)])
    with serving_layer.connect(stack.project) as connection:
        connection.wait_until_counted("now")
    speed.stop()
    file = stack.write_history(stack.root / "more.jsonl", "scans", [_scan("more", hour=0)])
    see_told(scheduled, 0, "import", "--source", "scans", str(file))
    assert runs(scheduled) == first, "an hour of the day is revised"
    see_told(scheduled, 1, "recompute")
    second = see_another_run(scheduled, first)
    assert second[1].scans == 2
    scheduled.clear(DAG, second[1].run, "restate")
    third = see_another_run(scheduled, second)
    assert third[2] == second[1]
    scheduled.pause(scheduled.dag("assets"), True)
    published = newest_publication(stack.project)
    scheduled.backfill(f"{BEGIN:%Y-%m}-01", dag="backfill_months")
    wait_for(lambda: newest_publication(stack.project) > published, "the month of the day was not backfilled")
    scheduled.pause(scheduled.dag("assets"), False)
    last = see_another_run(scheduled, third)
    assert last[3].scans == 0
    assert len({one.run for one in last}) == 3
    stack.note_cutoffs()
    assert [first[0].since, first[0].scans + second[1].scans] == [None, count_of_day(stack)]


def count_of_day(stack: StackProject) -> int:
    """The scans of the day, which has 25 hours, by plain Python."""
    start = BEGIN.replace(hour=4)
    answer = oracle.answer(stack.rules["scans"], "flow", stack.events("scans"), stack.cutoffs)
    return sum(values["scans"] for (hour, *_), values in answer.items() if start <= hour < start + timedelta(hours=25))


def see_told(scheduled: Scheduled, hour: int, *command: str) -> None:
    """A command that recomputes this hour is followed by one event of its asset."""
    key = f"{parcels.BEGIN + timedelta(hours=hour):%Y-%m-%dT%H:%M:%S}"
    before = scheduled.times_told("flow")[key]
    scheduled.stack.command(*command, status=None)
    wait_for(lambda: scheduled.times_told("flow")[key] > before, f"the asset does not tell of {key} after {command[0]}")
    assert scheduled.times_told("flow")[key] == before + 1


def _scan(scan: str, hour: int) -> Body:
    at = parcels.BEGIN + timedelta(hours=hour, minutes=30)
    (body,) = parcels.scans(random.Random(0), 1, hour, hours=1)  # noqa: S311 (the same each time)
    return {**body, "scan": scan, "depot": "north", "at": f"{at:%Y-%m-%dT%H:%M:%S}Z"}
