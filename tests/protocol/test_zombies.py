"""Zombies: processes that were frozen in the middle of a step, while another did their work, and that go on when they
wake.

Whatever they do then changes nothing that readers see, and they end with a clear message.
"""

from pathlib import Path

import pytest

from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import BareTables
from tests.support.frozen_process import FrozenTables

HOURS = [0, 1, 2, 1, 0, 2, 4, 1, 3, 0, 1, 5, 2, 3, 0, 1]


@pytest.mark.parametrize(
    "place",
    [
        "before create coverage",
        "before create final",
        # The next two places are the same step of the second metric, and of the next table.
        pytest.param("before create final 2", marks=pytest.mark.long),
        pytest.param("before create staged", marks=pytest.mark.long),
        "after overwrite staged",
        # The next place is the same step of the second metric.
        pytest.param("before overwrite final", marks=pytest.mark.long),
        "before overwrite final 2",
        "before overwrite coverage",
    ],
)
def test_a_first_publication_that_slept_through_another_changes_nothing(tmp_path: Path, place: str) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    tables.micro_batch(6)
    with FrozenTables(tmp_path, HOURS, "tables.publish(0, 1)", place) as zombie:
        tables.check()
        tables.publish(1, 2)
        tables.micro_batch(3)
        tables.check()
        status, said = zombie.wake()
    # One that had not looked at the tables yet has slept through nothing.
    assert (
        (status, said) == (0, "")
        if place == "before create coverage"
        else status == 1 and said.startswith("another process has written to")
    ), said
    tables.check()
    tables.publish(0, 1, 2)
    tables.check()


@pytest.mark.parametrize(
    "place",
    [
        "before restore final",
        # The next place leaves what the one after it leaves.
        pytest.param("after restore final", marks=pytest.mark.long),
        "before overwrite final",
        "after overwrite final 2",
    ],
)
def test_a_later_publication_that_slept_through_another_changes_nothing(tmp_path: Path, place: str) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    tables.micro_batch(6)
    tables.publish(0, 1)
    tables.micro_batch(3)
    # It got no further than final; what it left there has to be restored away.
    with FrozenTables(tmp_path, HOURS, "tables.publish(0, 1)", "before overwrite coverage"):
        pass
    with FrozenTables(tmp_path, HOURS, "tables.publish(0, 1, 2)", place) as zombie:
        tables.check()
        tables.publish(1)
        tables.micro_batch(3)
        tables.check()
        status, said = zombie.wake()
    assert (status, said.startswith("another process has written to")) == (1, True), said
    tables.check()
    tables.publish(0, 1, 2)
    tables.check()


@pytest.mark.parametrize(
    "place",
    [
        "before fence progress",
        pytest.param("before fence events", marks=pytest.mark.long),  # as progress, which is fenced before it
        pytest.param("before fence provisional 2", marks=pytest.mark.long),
        "before append events",
        # The next place is the same step of the second metric.
        pytest.param("before append provisional", marks=pytest.mark.long),
        "before append provisional 2",
        "before append progress",
        "before append provisional 3",
    ],
)
def test_a_speed_layer_that_slept_while_another_went_on_changes_nothing(tmp_path: Path, place: str) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    tables.micro_batch(2)
    with FrozenTables(tmp_path, HOURS, "tables.start(); tables.micro_batch(4); tables.micro_batch(4)", place) as zombie:
        tables.start()
        tables.check()
        # Smaller micro-batches, the first of which has nothing for the metric of odd hours: its table gets no commit
        # but the start's.
        tables.micro_batch(1)
        tables.check()
        status, said = zombie.wake()
        assert (status, said.startswith("another process has written to")) == (1, True), said
    tables.check()
    for size in (1, 1, 5):
        tables.micro_batch(size)
        tables.check()
    tables.publish(0, 1, 2, 3, 4)
    tables.check()


@pytest.mark.parametrize(
    "place", ["before delete provisional", "before compact events", "before vacuum events", "before compact progress"]
)
def test_upkeep_that_slept_while_another_went_on_changes_nothing(tmp_path: Path, place: str) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    for _ in range(4):
        tables.micro_batch(2)
    tables.publish(0, 1)
    with FrozenTables(
        tmp_path,
        HOURS,
        "tables.start(); maintain_source(tables.project, tables.source_tables, kept_hours=0)",
        place,
    ) as zombie:
        tables.start()
        tables.micro_batch(3)
        tables.publish(0, 1, 2)
        maintain_source(tables.project, tables.source_tables)
        tables.check()
        status, said = zombie.wake()
    assert (status, said.startswith("another process has written to")) == (1, True), said
    tables.check()
    tables.micro_batch(3)
    tables.publish(0, 1, 2)
    tables.check()
