"""The protocol, checked by machine on its model: whatever overtakes, dies, sleeps or is reset, each read is exact; and
each rule is needed.

Seeded random walks for the protocol as it is and with each rule broken; and a Hypothesis state machine, which shrinks
what it finds.
"""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.protocol_batch import recompute
from tests.support.protocol_model import HOURS, PARTITIONS, RULES, SOURCES, Model, Process
from tests.support.protocol_oracle import Record
from tests.support.protocol_reader import check_accounts, come_to_rest, finish, read, read_all_again, read_at_once
from tests.support.protocol_tables import ConflictError, Table

PROMISES = Path(__file__).parents[2] / "docs" / "promises.md"
"""Where the tables of promises and of rules are."""
WALKS = 2_000
STEPS = ("produce", "speed", "recompute", "read", "kill", "reset source", "reset metric", "declare", "mend", "go on")
METRICS = ("visits", "visitors", "parcels")


class World:
    """A model and the processes that are alive in it; all that can happen to them."""

    def __init__(self, seed: int, broken: str | None = None) -> None:
        self.model = Model(seed, broken)
        self.model.refused = 0.03 if seed % 4 == 0 else 0
        self.alive: list[Process] = []

    def begin(self, process: Process) -> None:
        self.alive = [*self.alive[-4:], process]  # of too many, the one that slept longest is killed
        if self.model.random.random() < 0.5:
            self.go_on(-1, 99)

    def go_on(self, index: int, steps: int) -> None:
        """A process makes some steps; it ends when it is done, or finds that another one has written where it wanted
        to.
        """
        process = self.alive[index % len(self.alive)]
        try:
            for _ in range(steps):
                before = Table.commits
                next(process)
                if Table.commits > before:
                    check_accounts(self.model)
                    read_at_once(self.model)
        except (StopIteration, ConflictError):
            self.alive.remove(process)

    def kill(self, index: int) -> None:
        self.alive.pop(index % len(self.alive))

    def come_to_rest(self) -> None:
        self.alive.clear()
        self.model.refused = 0
        for source in SOURCES:  # what was declared since is known from the next micro-batch on
            self.model.produce(source, [(0, Record("event", 0))])
        come_to_rest(self.model)
        read_all_again(self.model)


def walk(seed: int, broken: str | None = None) -> None:
    """One random walk; raises AssertionError when something does not hold. Each walk prefers some kinds of steps, so
    that rare ones meet.
    """
    rand = random.Random(seed)  # noqa: S311 (the same numbers each time)
    world = World(seed, broken)
    model = world.model
    sources = rand.choice((SOURCES, SOURCES[:1]))
    weights = [2, 3, 3, *(rand.choice((0, 1, 3)) for _ in range(2)), *(rand.choice((0, 0, 0.5)) for _ in range(4)), 10]
    for _ in range(rand.randint(10, 80)):
        source, metric = rand.choice(sources), rand.choice(METRICS)
        match rand.choices(STEPS, weights)[0]:
            case "produce":
                model.produce(
                    source, [(rand.choice(PARTITIONS), random_record(rand)) for _ in range(rand.randint(1, 4))]
                )
            case "speed":
                world.begin(model.speed(source, rand.randint(1, 3)))
            case "recompute":
                hours = sorted(rand.sample(HOURS, rand.randint(1, len(HOURS))))
                world.begin(recompute(model, hours, rand.randint(1, 4), rand.sample(METRICS, rand.randint(1, 3))))
            case "read":
                world.begin(read(model))
            case "reset source":
                world.begin(
                    model.reset_source(
                        source,
                        {partition: rand.randint(0, len(model.kafka[source][partition])) for partition in PARTITIONS},
                    )
                )
            case "reset metric":
                world.begin(model.reset_metric("depot" if metric == "parcels" else "web", metric))
            case "declare":
                model.declare_another(metric)
            case "mend":
                model.mended[source] = True
            case "kill" if world.alive:
                world.kill(rand.randrange(5))
            case "go on" if world.alive:
                world.go_on(rand.randrange(5), rand.choice((1, 2, 3, 5, 99)))
    world.come_to_rest()


def random_record(rand: random.Random) -> Record:
    kind = rand.choice(("event", "event", "event", "event", "garbage", "tombstone"))
    return Record(kind, rand.choice(HOURS), rand.choice((None, 1, 2, 3)))


@pytest.mark.parametrize("seeds", [range(WALKS // 2), pytest.param(range(WALKS // 2, WALKS), marks=pytest.mark.long)])
def test_the_protocol_holds_in_many_walks(seeds: range) -> None:
    for seed in seeds:
        walk(seed)


@pytest.mark.parametrize("broken", RULES)
def test_each_rule_is_needed(broken: str) -> None:
    with pytest.raises(AssertionError):
        for seed in range(WALKS):
            walk(seed, broken)


def test_the_table_of_rules_names_those_of_the_model_and_promises_that_there_are() -> None:
    rules, promises = table("The rules of the protocol"), table("The table")
    assert {rule: broken for rule, broken, _ in rules} == RULES
    assert [rule for rule, _, promise in rules if promise not in {promised for promised, *_ in promises}] == []


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without that of its titles."""
    section = PROMISES.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return rows[2:]


records = st.builds(
    Record,
    st.sampled_from(("event", "event", "event", "garbage", "tombstone")),
    st.sampled_from(HOURS),
    st.none() | st.integers(1, 3),
)
partitions = st.sampled_from(PARTITIONS)
positions = st.fixed_dictionaries(dict.fromkeys(PARTITIONS, st.integers(0, 12)))


class Protocol(RuleBasedStateMachine):
    """The same world, driven by Hypothesis: a failure is shrunk to the few steps that matter."""

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.world = World(seed)
        self.model = self.world.model

    @rule(source=st.sampled_from(SOURCES), sent=st.lists(st.tuples(partitions, records), min_size=1, max_size=5))
    def produce(self, source: str, sent: list[tuple[int, Record]]) -> None:
        self.model.produce(source, sent)

    @rule(source=st.sampled_from(SOURCES), most=st.integers(1, 3))
    def speed(self, source: str, most: int) -> None:
        self.world.begin(self.model.speed(source, most))

    @rule(
        hours=st.sets(st.sampled_from(HOURS), min_size=1),
        at_once=st.integers(1, 4),
        metrics=st.sets(st.sampled_from(METRICS), min_size=1),
    )
    def recompute(self, hours: set[int], at_once: int, metrics: set[str]) -> None:
        self.world.begin(recompute(self.model, sorted(hours), at_once, sorted(metrics)))

    @rule()
    def read(self) -> None:
        self.world.begin(read(self.model))

    @rule(source=st.sampled_from(SOURCES), position=positions)
    def reset_source(self, source: str, position: dict[int, int]) -> None:
        held = {
            partition: min(offset, len(self.model.kafka[source][partition])) for partition, offset in position.items()
        }
        self.world.begin(self.model.reset_source(source, held))

    @rule(metric=st.sampled_from(METRICS))
    def reset_metric(self, metric: str) -> None:
        self.world.begin(self.model.reset_metric("depot" if metric == "parcels" else "web", metric))

    @rule(metric=st.sampled_from(METRICS))
    def declare(self, metric: str) -> None:
        self.model.declare_another(metric)

    @rule(source=st.sampled_from(SOURCES))
    def mend(self, source: str) -> None:
        self.model.mended[source] = True

    @precondition(lambda self: self.world.alive)
    @rule(index=st.integers(0, 4))
    def kill(self, index: int) -> None:
        self.world.kill(index)

    @precondition(lambda self: self.world.alive)
    @rule(index=st.integers(0, 4), steps=st.sampled_from((1, 2, 4, 99)))
    def go_on(self, index: int, steps: int) -> None:
        self.world.go_on(index, steps)

    def teardown(self) -> None:
        self.world.come_to_rest()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@given(st.lists(records, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_same_records_in_another_order_partitioning_and_batching_give_the_same_answer(
    sent: list[Record], rand: random.Random
) -> None:
    answers = []
    for order in (sent, rand.sample(sent, len(sent))):
        model = Model(rand.randrange(99))
        for record in order:
            model.produce("web", [(rand.choice(PARTITIONS), record)])
            if rand.random() < 0.3:
                finish(model.speed("web", rand.randint(1, 3)))
            if rand.random() < 0.2:
                finish(recompute(model, rand.sample(HOURS, 2), 1, ["visits"]))
        answers.append(come_to_rest(model))
    assert answers[0] == answers[1]
