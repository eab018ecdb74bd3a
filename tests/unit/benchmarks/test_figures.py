"""What benchmarks say of themselves: ratios, and the page that is made of them. No figure is asserted."""

import importlib
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.figures import LAST, Figure, Result
from benchmarks.page import BENCHMARKS, PAGE, PLOT, write


def test_a_figure_is_the_ratio_of_medians_with_the_lowest_and_the_highest_of_the_rounds() -> None:
    figure = Figure(what="one, to another", unit="ms", ours=[10, 30, 20], peer=[10, 10, 40], goal=1.5)
    assert figure.value == 2
    assert figure.spread == (0.5, 3)
    assert figure.row == ["one, to another", "ms", "20", "10", "2", "0.5–3", "≤ 1.5", "no"]


@pytest.mark.parametrize(
    ("goal", "at_least", "reached"),
    [(2, False, True), (1.9, False, False), (2, True, True), (2.1, True, False), (None, False, None)],
)
def test_a_goal_is_reached_from_its_own_side(goal: float | None, at_least: bool, reached: bool | None) -> None:
    assert Figure(what="", unit="MB", ours=[2], peer=[], goal=goal, at_least=at_least).reached is reached


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_says_what_it_measures(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert callable(module.measure)
    assert f"python -m benchmarks.{name} [--full]" in str(module.__doc__)


def test_the_page_has_every_figure_and_where_it_was_taken(tmp_path: Path) -> None:
    last = tmp_path / "last"
    last.mkdir()
    figures = [
        Figure(what="a question", unit="ms", ours=[3], peer=[2], goal=1),
        Figure(what="memory", unit="MB", ours=[300], peer=[]),
    ]
    taken = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    result = Result(
        name="queries",
        full=True,
        taken=taken,
        commit="c0ffee",
        machine="a machine",
        seconds=61,
        figures=figures,
        notes=["beside it"],
    )
    (last / "queries.json").write_text(result.model_dump_json())
    write(last)
    page = (tmp_path / PAGE).read_text()
    row = "| a question | ms | 3 | 2 | 1.5 | 1.5–1.5 | ≤ 1 | no |"
    for said in (row, "| memory |", "- beside it", "full run, 2026-01-02 03:04 UTC", "c0ffee; a machine"):
        assert said in page
    assert "queries: a question" in (tmp_path / PLOT).read_text()


def test_the_page_is_that_of_the_last_figures(tmp_path: Path) -> None:
    shutil.copytree(LAST, tmp_path / "last")
    write(tmp_path / "last")
    assert (tmp_path / PAGE).read_text() == LAST.with_name(PAGE).read_text(), "run `python -m benchmarks.page`"
