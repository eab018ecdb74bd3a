"""How far a recompute is: hours, events, the time that is left; told to the caller, and noted for others."""

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.plan import PlannedHour
from batch_layer.recompute_progress import NO_WORK, ProgressCount
from hourline_core.model.hours import HOUR
from hourline_core.runtime.running_recomputes import (
    DecodedChunk,
    RecomputeProgress,
    Work,
    list_recomputes,
    noting_recompute,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from hourline_core.runtime.running_recomputes import RecomputeProgress, Work, noting_recompute

now = datetime(2026, 3, 2, 11, tzinfo=UTC)
with noting_recompute(Path(sys.argv[1]), "hourline recompute", now) as note:
    note(RecomputeProgress(now, Work(0, 0), Work(1, 1), None))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_time_that_is_left_follows_from_events_and_not_from_hours() -> None:
    now, told = NOON, list[RecomputeProgress]()
    count = ProgressCount(NO_WORK, lambda: now, told.append)
    # A night of small hours, and a day of large ones. Two metrics count the same events.
    night, day = [*hours(0, 8, 999, "a"), *hours(0, 8, 999, "b")], hours(8, 24, 99_999)
    count.start([night, day], 30 * MINUTE)
    assert told[-1].left == 30 * MINUTE, "as estimated, before anything is done"
    now += MINUTE
    count.finish(night, NOON)
    assert (told[-1].done, told[-1].all) == (Work(8, 8 * 999), Work(24, 8 * 999 + 16 * 99_999))
    assert told[-1].left == 200 * MINUTE, "8,000 in a minute, 1,600,000 are left"
    now += 100 * MINUTE
    count.finish(day, now - 100 * MINUTE)
    assert (told[-1].done, told[-1].left) == (told[-1].all, timedelta(0))


def test_hours_without_events_count_as_hours_and_a_resumed_backfill_goes_on_at_its_own_pace() -> None:
    now, told = NOON, list[RecomputeProgress]()
    count = ProgressCount(Work(90, 5_000), lambda: now, told.append)
    jobs = [hours(0, 2, 0), hours(2, 10, 0)]
    count.start(jobs)
    assert (told[-1].done, told[-1].all, told[-1].left) == (Work(90, 5_000), Work(100, 5_000), None)
    now += MINUTE
    count.finish(jobs[0], NOON)
    assert (told[-1].done, told[-1].left) == (Work(92, 5_000), 4 * MINUTE)


def test_the_start_of_spark_and_hours_that_others_have_published_tell_nothing_of_the_pace() -> None:
    now, told = NOON, list[RecomputeProgress]()
    count = ProgressCount(NO_WORK, lambda: now, told.append)
    jobs = [hours(0, 4, 99), hours(4, 8, 99), hours(8, 12, 99), hours(12, 20, 99)]
    count.start(jobs, 30 * MINUTE)
    count.finish(jobs[0])
    assert told[-1].left == 30 * MINUTE, "nothing was done that takes time"
    now += 10 * MINUTE  # Spark starts.
    began, now = now, now + MINUTE
    count.finish(jobs[1], began)
    assert told[-1].left == 3 * MINUTE, "four hours in a minute, 12 are left"
    now += 3 * MINUTE
    count.finish(jobs[2], now - 2 * MINUTE)
    assert told[-1].left == 4 * MINUTE, "from then on, waiting for another process counts: eight hours in four minutes"
    count.finish(jobs[3], now)
    assert told[-1].left == timedelta(0)


def test_hours_that_others_have_published_between_two_jobs_tell_nothing_of_the_pace() -> None:
    now, told = NOON, list[RecomputeProgress]()
    count = ProgressCount(NO_WORK, lambda: now, told.append)
    jobs = [hours(first, first + 2, 99) for first in range(0, 20, 2)]
    count.start(jobs)
    now += MINUTE
    count.finish(jobs[0], NOON)
    for job in jobs[1:6]:
        count.finish(job)
    assert told[-1].left == 4 * MINUTE, "a job in a minute, four are left"


def test_a_recompute_whose_hours_all_were_published_by_others_has_no_time_left() -> None:
    told = list[RecomputeProgress]()
    count = ProgressCount(NO_WORK, lambda: NOON, told.append)
    count.start([hours(0, 4, 99)], 30 * MINUTE)
    count.finish(hours(0, 4, 99))
    assert told[-1].left == timedelta(0)


def test_decoding_anew_tells_its_chunks_and_the_time_for_the_others() -> None:
    now, told, chunks = NOON, list[RecomputeProgress](), list[DecodedChunk]()
    count = ProgressCount(NO_WORK, lambda: now, told.append)
    count.start([hours(0, 2, 10)])
    on_chunk = count.decode("clicks", chunks.append)
    now += 2 * MINUTE
    on_chunk(2_000, 1, 4)
    assert chunks == [DecodedChunk("clicks", 2_000, 1, 4, 6 * MINUTE)]
    assert (told[-1].decoding, told[-1].done, told[-1].all) == ("clicks, chunk 1 of 4", NO_WORK, Work(2, 20))
    count.start([hours(0, 2, 10)])
    assert told[-1].decoding is None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1_000), min_size=1, max_size=5), min_size=1, max_size=5))
def test_the_end_is_foreseen_exactly_by_an_even_pace(sizes: list[list[int]]) -> None:
    now, told, first = NOON, list[RecomputeProgress](), 0
    count = ProgressCount(NO_WORK, lambda: now, told.append)
    jobs = []
    for of_job in sizes:
        jobs.append([planned(first + number, events) for number, events in enumerate(of_job)])
        first += len(of_job)
    count.start(jobs)
    for job in jobs:
        began, now = now, now + timedelta(seconds=sum(item.events + 1 for item in job))
        count.finish(job, began)
    end = now
    for one in told[1:]:
        assert one.left is not None and abs(one.at + one.left - end) < timedelta(milliseconds=1)
    assert [one.done.hours for one in told] == [sum(map(len, sizes[:n])) for n in range(len(sizes) + 1)]


def test_a_note_lasts_as_long_as_its_recompute_and_others_run_beside_it(tmp_path: Path) -> None:
    assert list_recomputes(tmp_path, NOON) == []
    with (
        noting_recompute(tmp_path, "hourline backfill", NOON) as of_backfill,
        noting_recompute(tmp_path, "hourline recompute", NOON + MINUTE) as hourly,
    ):
        of_backfill(RecomputeProgress(NOON + MINUTE, Work(1, 10), Work(4, 40), 3 * MINUTE))
        hourly(RecomputeProgress(NOON + MINUTE, Work(0, 0), Work(1, 10), None))
        first, second = list_recomputes(tmp_path, NOON + 2 * MINUTE)
        assert (first.command, first.since, first.progress.done) == ("hourline backfill", NOON, Work(1, 10))
        assert first.progress.left == 2 * MINUTE, "a minute has passed since"
        assert (second.command, second.progress.left) == ("hourline recompute", None)
        assert list_recomputes(tmp_path, NOON + HOUR)[0].progress.left is None, "it takes longer than estimated"
    assert list_recomputes(tmp_path, NOON) == []
    assert list((tmp_path / "run" / "recomputes").iterdir()) == []


def test_a_killed_recompute_is_not_listed_and_the_next_one_deletes_its_note(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    folder = tmp_path / "run" / "recomputes"
    assert len(list(folder.glob("*.json"))) == 1
    assert list_recomputes(tmp_path, NOON) == []
    with noting_recompute(tmp_path, "hourline recompute", NOON):
        assert list(folder.glob("*.json")) == []


def test_a_note_that_cannot_be_written_stops_no_recompute(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the place of the folder")
    with noting_recompute(tmp_path, "hourline recompute", NOON) as note:
        note(RecomputeProgress(NOON, Work(0, 0), Work(1, 1), None))


def hours(first: int, end: int, events: int, metric: str = "a") -> list[PlannedHour]:
    return [planned(number, events, metric) for number in range(first, end)]


def planned(number: int, events: int, metric: str = "a") -> PlannedHour:
    return PlannedHour("clicks", metric, NOON + number * HOUR, "forced", events, True, None, None)
