"""What a drain costs: from the commits that a process reports, and the threads that Linux lists."""

import sys

import pytest

from benchmarks.draining import drained
from benchmarks.processes import JavaTime, thread_kind


def process(*sizes: int, joined: int = 0) -> list[str]:
    """A process that reports a commit with so many records after a tenth of a CPU second for each, and then one of
    ``joined`` pairs after another one.
    """
    code = (
        "import sys, time\n"
        f"for name, size in {[*(('orders', size) for size in sizes), *([('paid', joined)] if joined else [])]}:\n"
        "    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end: pass\n"
        "    print(f'12:00:00 {name} #1: {size:,} records in 0.10 s')\n"
    )
    return [sys.executable, "-c", code]


def test_the_largest_micro_batch_of_a_drain_is_told() -> None:
    done = drained(process(1_000, 3_000, 2_000), 6_000, 1_000)
    assert done.largest == 3_000


def test_a_process_without_java_and_children_is_all_driver() -> None:
    done = drained(process(1_000, 1_000, 1_000), 3_000, 1_000)
    assert done.java == 0
    assert done.compiling == 0
    assert done.driver == pytest.approx(1e6 / done.warm, rel=0.5)  # Linux counts in ticks


def test_pairs_are_no_events_but_what_they_take_counts() -> None:
    without = drained(process(1_000, 1_000), 2_000, 1_000)
    done = drained(process(1_000, 1_000, joined=5_000), 2_000, 1_000, joined="paid")
    assert done.largest == 1_000
    assert done.warm == pytest.approx(without.warm / 2, rel=0.5)  # Linux counts in ticks


def test_a_drain_that_leaves_events_is_no_measurement() -> None:
    with pytest.raises(AssertionError, match="2,000 of 3,000 events were drained"):
        drained(process(1_000, 1_000), 3_000, 1_000)


def test_a_drain_with_nothing_after_its_start_up_is_no_measurement() -> None:
    with pytest.raises(AssertionError, match="one commit brought all events after the first 1,000"):
        drained(process(3_000), 3_000, 1_000)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Executor task l", "tasks"),
        ("C2 CompilerThre", "compilers"),
        ("C1 CompilerThre", "compilers"),
        ("VM Thread", "collectors"),
        ("stream executio", None),
    ],
)
def test_a_java_thread_is_known_by_what_linux_keeps_of_its_name(name: str, kind: str | None) -> None:
    assert thread_kind(name) == kind


def test_the_rest_of_java_is_what_neither_tasks_nor_compilers_nor_collectors_used() -> None:
    used = JavaTime(whole=20, tasks=5, compilers=2, collectors=4).since(
        JavaTime(whole=4, tasks=3, compilers=1, collectors=2)
    )
    assert used.rest == 11
