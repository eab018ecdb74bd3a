"""Short random stories on the real broker, Spark and Delta: whatever happens in whatever order, every answer equals the
oracle after each step.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from batch_layer.plan import PlannedHour, plan_range
from hourline_core.model.hours import HourRange
from speed_layer.commit import maintenance
from speed_layer.commit.maintenance import maintain_source
from tests.support import parcels
from tests.support.parcels import GARBAGE
from tests.support.sink_topic import in_view, newest_of, read_topic
from tests.support.stack_project import StackProject, leave_rows

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 12))])
def test_a_random_story_is_exact_after_each_step(
    seed: int, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rand = random.Random(seed)  # noqa: S311 (the same numbers each time)
    monkeypatch.setattr(maintenance, "MICRO_BATCHES", rand.choice([2, 5, 200]))
    monkeypatch.setattr(maintenance, "MERGED", rand.choice([2, 3, 20]))
    monkeypatch.setattr(maintenance, "maintain_source", partial(maintain_source, kept_hours=0))
    project = parcels.make(
        tmp_path, kafka, topic=f"story_{seed}", records_per_batch=rand.choice([25, 60, 200]), few=True
    )
    (tmp_path / "sinks").mkdir()
    (tmp_path / "sinks" / "out.yaml").write_text(f"{{metric: flow, topic: out_{seed}, partitions: 2}}")
    send(project, rand)
    for step in ("drain", *rand.sample(list(STEPS), 2)):
        STEPS[step](project, rand)
        assert project.check() > 50, step
        project.command("send", "--drain")
        with serving_layer.connect(project.project) as connection:
            assert newest_of(read_topic(kafka, f"out_{seed}")) == in_view(connection, "flow")


def send(project: StackProject, rand: random.Random) -> None:
    """Events in some hours, repetitions of earlier ones, garbage and tombstones."""
    first = rand.randrange(4)
    earlier = [record.body for record in project.sent["scans"] if record.body]
    project.send_refused("scans", rand.sample(GARBAGE, rand.randrange(4)))
    project.send("scans", parcels.scans(rand, rand.randrange(40, 120), first, hours=rand.randint(1, 5 - first)))
    project.send("scans", rand.sample(earlier, min(len(earlier), rand.randrange(15))))
    project.send_refused("scans", rand.sample(GARBAGE, rand.randrange(3)))


def drain(project: StackProject, rand: random.Random) -> None:
    send(project, rand)
    project.drain()


def drain_after_a_crash(project: StackProject, rand: random.Random) -> None:
    """A micro-batch ended between two of its commits; the next start clears what it left."""
    last = project.last_sequence("scans")
    folders = [
        folder
        for kind in ("events/scans", "provisional/flow/*", "provisional/fragile/*")
        for folder in Path(project.project.tables).glob(kind)
    ]
    for folder in rand.sample(folders, rand.randint(1, len(folders))):
        leave_rows(folder, sequence=last + rand.choice([1, 1, 4]))
    assert project.check_answers() > 50
    drain(project, rand)


def recompute(project: StackProject, rand: random.Random) -> None:
    project.recompute()


def recompute_some_hours(project: StackProject, rand: random.Random) -> None:
    """Of all metrics or one, closed or not."""
    project.recompute(some_hours(project, rand))


def some_hours(project: StackProject, rand: random.Random) -> list[PlannedHour]:
    hours = sorted({event.hour for event in project.events("scans")})
    first, last = sorted([rand.choice(hours), rand.choice(hours)])
    return plan_range(
        project.project, HourRange(first, last + timedelta(hours=1)), rand.choice([None, ["flow"], ["fragile"]])
    )


STEPS: dict[str, Callable[[StackProject, random.Random], None]] = {
    "drain": drain,
    "drain after a crash": drain_after_a_crash,
    "recompute": recompute,
    "recompute some hours": recompute_some_hours,
}


@pytest.mark.long
def test_the_same_records_in_another_order_partitioning_and_batching_give_the_same_answers(
    kafka: str, tmp_path: Path
) -> None:
    rand = random.Random(7)  # noqa: S311 (the same numbers each time)
    # A repetition with other values counts as the first of them: which one that is depends on the order, so here they
    # are equal.
    events = parcels.scans(rand, 200, first_hour=0, hours=4)
    unique = list({(event["scan"], event["at"][:13]): event for event in events if event["scan"]}.values())
    repeated = [*unique, *rand.sample(unique, 40), *(event for event in events if event["scan"] is None)]
    answers = []
    for number, most in enumerate((40, 400)):
        project = parcels.make(tmp_path / str(number), kafka, topic=f"order_{number}", records_per_batch=most)
        order = rand.sample(repeated, len(repeated))
        project.send("scans", order[:100])
        if number == 0:  # The other one counts all of them at once.
            project.drain()
            project.recompute(every_hour(project))
        project.send("scans", order[100:])
        project.drain()
        project.recompute(every_hour(project))
        assert project.check() > 100
        answers.append(exact_answers(project))
    assert answers[0] == answers[1]


def every_hour(project: StackProject) -> list[PlannedHour]:
    return plan_range(project.project, HourRange(parcels.BEGIN, parcels.BEGIN + timedelta(days=1)))


def exact_answers(project: StackProject) -> list[tuple[Any, ...]]:
    """All but the sums of doubles, whose last digits may differ each time."""
    with serving_layer.connect(project.project) as connection:
        flow = connection.sql("SELECT * EXCLUDE (way, speed, mean_price) FROM flow ORDER BY ALL").fetchall()
        return [*flow, *connection.sql("FROM fragile ORDER BY ALL").fetchall()]
