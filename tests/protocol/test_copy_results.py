"""The example that copies results: whatever kills a run, the next one makes the copy equal to the results."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import serving_layer
from examples.copy_results import connect, copy_results
from hourline_core.runtime.airflow.postgres import Postgres
from speed_layer.commit.maintenance import maintain_source
from tests.support.forked import start
from tests.support.result_rows import KEPT, rows_of
from tests.support.visits import Visit, Visits

KILLED = 9
STATEMENTS = [4, 1_000]
"""How many statements a run has made when it is killed. It makes fewer than the last, and is killed before its commit."""


class Mortal:
    """A connection whose process ends before one of its statements, or before its commit."""

    def __init__(self, target: Any, statements: int) -> None:
        self._target, self._left = target, statements

    def execute(self, statement: str, values: Any = ()) -> Any:
        if self._left == 0:
            os._exit(KILLED)
        self._left -= 1
        return self._target.execute(statement, values)

    def commit(self) -> object:
        os._exit(KILLED)


def run_and_die(folder: str, target: str, statements: int) -> None:
    copy_results(folder, Mortal(connect(target), statements))


def run_whole(folder: str, target: str) -> None:
    copy_results(folder, connect(target))


@pytest.fixture(params=[pytest.param("duckdb", marks=pytest.mark.long), "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "duckdb":
        yield str(tmp_path / "copy.duckdb")
        return
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server:
        yield server.url


Cells = set[tuple[Any, ...]]
"""The start of the window, the dimensions as JSON, the measure, and its value as text."""


def copied(target: str) -> Cells:
    query = "SELECT window_start, dimensions, measure, value FROM results WHERE metric = 'loads'"
    connection: Any = psycopg.connect(target) if target.startswith("postgresql") else duckdb.connect(target)
    try:
        return {(start.timestamp(), *rest) for start, *rest in connection.execute(query).fetchall()}
    finally:
        connection.close()


def results(visits: Visits) -> Cells:
    with serving_layer.connect(visits.project) as connection:
        return {
            (start.timestamp(), json.dumps({"page": page, "slow": slow}), measure, value)
            for (start, _, page, slow), values in rows_of(connection, "loads").items()
            for measure, value in values.items()
        }


def test_a_copy_is_the_results_whatever_kills_a_run(tmp_path: Path, target: str) -> None:
    visits = Visits(tmp_path / "site", drift=True)
    (tmp_path / "site" / "hourline.yaml").write_text("name: site\nbatch: {answers_kept: 20000d}\n")
    visits.project = replace(visits.project, settings=KEPT)
    visits.start()

    def first() -> None:
        visits.micro_batch(Visit(0, "a", 5), Visit(9, None, 900), Visit(9, "b", 1, visit="x"))

    def then() -> None:
        visits.micro_batch(Visit(0, "a", 50), Visit(9, "c", 900, visit="x", missed=True))
        visits.publish(9)
        maintain_source(visits.project, visits.source_tables, kept_hours=0)

    folder = str(visits.project.root)
    before: Cells | None = None
    for step in (first, then):
        step()
        for statements in STATEMENTS:
            run = start(run_and_die, folder, target, statements)
            run.join()
            assert run.exitcode == KILLED
            assert before is None or copied(target) == before, "a run that was killed has changed nothing"
        run = start(run_whole, folder, target)
        run.join()
        assert run.exitcode == 0
        before = copied(target)
        assert before == results(visits)
