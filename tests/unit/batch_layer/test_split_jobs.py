"""Hours are cut into jobs by what they hold: each once, in order, with all its metrics."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from batch_layer.plan import FORCED, PlannedHour
from batch_layer.split_jobs import HOURS, HOURS_OF_BACKFILL, split_jobs
from hourline_core.model import BatchSettings, Project, Settings

BASE = datetime(2024, 3, 1, tzinfo=UTC)
PROJECT = Project(Path("shop"), Settings(), {}, {})


def planned(*events: int, metrics: int = 1) -> list[PlannedHour]:
    """Successive hours with these numbers of events."""
    return [
        PlannedHour(
            "clicks",
            f"m{metric}",
            BASE + timedelta(hours=number),
            FORCED,
            count,
            closed=True,
            version=None,
            staged=None,
        )
        for number, count in enumerate(events)
        for metric in range(metrics)
    ]


def sizes(items: list[PlannedHour], hours: int = HOURS, declared: int | None = None) -> list[int]:
    """The numbers of hours in the jobs."""
    project = replace(PROJECT, settings=Settings(batch=BatchSettings(hours_per_job=declared)))
    return [len({item.hour for item in job}) for job in split_jobs(project, items, hours)]


def test_hours_with_few_events_share_a_job_and_those_with_many_do_not() -> None:
    year = 8_760
    assert sizes(planned(*[10] * year), HOURS_OF_BACKFILL) == [4_000, 4_000, 760]
    assert sizes(planned(*[10] * year, metrics=8)) == [500] * 17 + [260]
    assert sizes(planned(*[1_000_000] * 60), HOURS_OF_BACKFILL) == [24, 24, 12]
    assert sizes(planned(*[1_000_000] * 24, *[10] * 500), HOURS_OF_BACKFILL) == [24, 500]
    assert sizes(planned(*[10_000] * 1_000), HOURS_OF_BACKFILL) == [500, 500]


def test_a_job_of_several_hours_has_at_most_25_million_events() -> None:
    assert sizes(planned(*[4_000_000] * 15)) == [6, 6, 3]
    assert sizes(planned(*[4_000_000] * 6, metrics=3)) == [2, 2, 2]
    assert sizes(planned(10, 60_000_000, 10, 40_000_000)) == [1, 1, 1, 1]
    assert sizes(planned(*[4_000_000] * 15), declared=10) == [6, 6, 3]


def test_a_declared_number_is_the_maximum() -> None:
    assert sizes(planned(*[10] * 100), declared=30) == [30, 30, 30, 10]
    assert sizes(planned(*[10] * 100), HOURS_OF_BACKFILL, declared=30) == [24, 24, 24, 24, 4]


@given(
    st.lists(st.sampled_from([0, 10, 300_000, 10**7]), max_size=90), st.integers(1, 3), st.sampled_from([None, 1, 7])
)
def test_each_hour_is_in_one_job_with_all_its_metrics(events: list[int], metrics: int, declared: int | None) -> None:
    items = planned(*events, metrics=metrics)
    project = replace(PROJECT, settings=Settings(batch=BatchSettings(hours_per_job=declared)))
    jobs = list(split_jobs(project, items, HOURS_OF_BACKFILL))
    assert [item for job in jobs for item in job] == items
    assert all(jobs)
    assert all(one[-1].hour < other[0].hour for one, other in pairwise(jobs))
