"""A new and a changed metric, step by step, on the product's own commits (the protocol's random walk does the same in
any order).
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from batch_layer.accept import accept
from hourline_core.errors import UsageError
from hourline_core.ledger.pending_declarations import PendingDeclaration, find_pending
from hourline_core.ledger.progress_rows import Position, ProgressRow
from hourline_core.ledger.snapshot import take_snapshot
from speed_layer.reset import MetricReset
from tests.support.protocol_machine import BASE, HOURS, Protocol, factor


@pytest.fixture
def protocol() -> Iterator[Protocol]:
    walk = Protocol()
    walk.first_start()
    yield walk
    walk.teardown()


def test_a_changed_metric_answers_as_before_until_its_last_hour_is_covered(protocol: Protocol) -> None:
    arrive(protocol, [0, 1])
    protocol.recompute({0}, "published")
    protocol.metric_changes(2, restarted=False)
    assert served(protocol) == 1, "the speed layer has not started since"
    arrive(protocol, [1])
    protocol.restart()
    arrive(protocol, [0, 2])
    protocol.maintenance()
    arrive(protocol, [0, 1])
    assert served(protocol) == 1
    protocol.recompute({0}, "published")
    protocol.recompute({1}, "killed before coverage")
    protocol.reads_are_exact()
    assert served(protocol) == 1, "hour 1 is missing yet"
    protocol.recompute({1}, "published")
    protocol.reads_are_exact()
    assert served(protocol) == 2, "hour 2 has only events that both have counted"
    protocol.maintenance()
    arrive(protocol, [0, 1, 2])
    protocol.restart()
    arrive(protocol, [0, 1, 2])


def test_a_change_that_is_taken_back_leaves_no_trace(protocol: Protocol) -> None:
    arrive(protocol, [0, 1])
    protocol.metric_changes(3, restarted=True)
    arrive(protocol, [0, 1])
    protocol.metric_changes(1, restarted=True)
    assert served(protocol) == 1
    arrive(protocol, [0, 1])
    protocol.everything_recomputed()
    protocol.reads_are_exact()
    assert served(protocol) == 1


def test_hours_from_before_a_new_metric_are_missing_until_they_are_recomputed(protocol: Protocol) -> None:
    arrive(protocol, [0, 1])
    protocol.new_metric()
    arrive(protocol, [1, 2])
    protocol.metric_taken_away()
    arrive(protocol, [2, 3])
    protocol.new_metric()
    arrive(protocol, [3, 3])
    protocol.recompute({1, 2}, "published")
    protocol.reads_are_exact()
    protocol.everything_recomputed()
    protocol.reads_are_exact()


def test_what_blocked_an_older_declaration_is_nothing_to_the_one_that_took_over(protocol: Protocol) -> None:
    arrive(protocol, [0, 1])
    protocol.recompute({0, 1}, "published", blocked={0})
    assert list(take_snapshot(protocol.project).blocked) == [("totals", HOURS[0])]
    protocol.metric_changes(2, restarted=True)
    arrive(protocol, [0, 1])
    protocol.everything_recomputed()
    assert served(protocol) == 2
    assert take_snapshot(protocol.project).blocked == {}
    with pytest.raises(UsageError, match="is not blocked"):
        accept(protocol.project, protocol.project.metrics["totals"], HOURS[0], "somebody", "it is right", lambda: BASE)
    protocol.reads_are_exact()


def test_an_accepted_hour_counts_up_to_its_cut_and_what_has_come_since_on_top(protocol: Protocol) -> None:
    arrive(protocol, [0, 0, 1])
    protocol.recompute({0, 1}, "published", blocked={0, 1})
    arrive(protocol, [0, 2])
    protocol.a_person_accepts()
    protocol.reads_are_exact()
    protocol.maintenance()
    protocol.reads_are_exact()
    protocol.recompute({0, 1}, "published")
    assert take_snapshot(protocol.project).blocked == {}
    protocol.reads_are_exact()


def test_a_declaration_is_pending_from_its_change_until_it_is_promoted(protocol: Protocol) -> None:
    arrive(protocol, [0, 1])
    protocol.recompute({0, 1}, "published", blocked={0})
    first = take_snapshot(protocol.project).served[0].declaration
    assert pending(protocol) == []
    protocol.metric_changes(2, restarted=False)
    (one,) = pending(protocol)
    assert (one.served, one.served_since, one.is_started) == (first, None, False)
    assert one.in_words().endswith("until the speed layer starts again (`hourline down`, `hourline up`)")
    protocol.restart()
    arrive(protocol, [2])
    (one,) = pending(protocol)
    assert (one.served, one.is_started, one.blocked, one.served_blocked) == (first, True, 0, 1)
    protocol.recompute({0, 1}, "published", blocked={0, 1})
    (one,) = pending(protocol)
    assert (one.served, one.is_started, one.blocked, one.served_blocked) == (first, True, 2, 1)
    assert "`hourline recompute`" in one.in_words()
    assert "2 hour(s) of the new one are blocked" in one.in_words()
    protocol.everything_recomputed()
    assert pending(protocol) == []
    second = take_snapshot(protocol.project).served[0].declaration
    protocol.metric_changes(3, restarted=False)
    (one,) = pending(protocol)
    assert (one.served, one.served_since) == (second, BASE), "since it was promoted"
    protocol.new_metric()
    assert pending(protocol) == [replace(one, is_started=True)], "a new metric that is written has answers"


@pytest.mark.parametrize("reset", ["source", pytest.param("metric", marks=pytest.mark.long)])
def test_a_declaration_that_was_promoted_before_any_event_came_stays_promoted(protocol: Protocol, reset: str) -> None:
    protocol.new_metric()
    arrive(protocol, [0, 1])
    protocol.metric_changes(2, restarted=True)
    protocol.everything_recomputed()
    assert (served(protocol), pending(protocol)) == (2, [])
    if reset == "metric":
        MetricReset(protocol.project, protocol.project.metrics["copies"]).apply(BASE)
    else:
        reset_source(protocol)
    assert (served(protocol), pending(protocol)) == (2, [])
    protocol.metric_changes(3, restarted=False)
    assert served(protocol) == 2, "readers keep the answers that they had"
    protocol.restart()
    assert served(protocol) == 2
    protocol.metric_changes(2, restarted=True)
    assert (served(protocol), pending(protocol)) == (2, [])
    protocol.reads_are_exact()


def reset_source(protocol: Protocol) -> None:
    """Let the source be read on where it was."""
    progress = protocol.source_tables.progress
    last, position = progress.last_row(), (Position(0, protocol.offset, protocol.offset),)
    topic, sequence = ("topic-id", "clicks"), progress.sequence + 1
    row = ProgressRow.of_source_reset(last, sequence, topic, position, (), BASE, None, ())
    progress.reset([row], {}, of_metric=False)
    protocol.restart()


def pending(protocol: Protocol) -> list[PendingDeclaration]:
    return find_pending(protocol.project, take_snapshot(protocol.project))


def arrive(protocol: Protocol, hours: list[int]) -> None:
    """A micro-batch with an event in each of these hours; every read on the way is exact."""
    protocol.micro_batch(hours, random.Random(0), None)  # noqa: S311 (the same each time)
    protocol.reads_are_exact()


def served(protocol: Protocol) -> int:
    (metric,) = [tables.metric for tables in take_snapshot(protocol.project).served if tables.metric.name == "totals"]
    return factor(metric)
