"""How much memory a DuckDB has: in a Python worker of Spark, a part of what all workers of the machine share."""

import os
from pathlib import Path

import duckdb
import pytest

from hourline_core.child_environment import WORKER_MEMORY
from hourline_core.compute.worker_database import open_database
from hourline_core.runtime.spark_java import spark_environment

MEGABYTES = {"KiB": 2**-10, "MiB": 1, "GiB": 2**10, "TiB": 2**20}


@pytest.fixture(autouse=True)
def of_four_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker of a machine with four cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.delenv(WORKER_MEMORY, raising=False)


@pytest.mark.parametrize(("declared", "megabytes"), [("100m", 25), ("2g", 512), ("1m", 0.25)])
def test_a_worker_has_the_part_of_a_core_in_what_is_declared(
    declared: str, megabytes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORKER_MEMORY, declared)
    with open_database() as database:
        assert limit_of(database) == megabytes


def test_a_worker_has_by_default_the_part_of_a_core_in_half_of_what_duckdb_takes() -> None:
    with open_database() as database, duckdb.connect() as plain:
        assert limit_of(database) == pytest.approx(limit_of(plain) / 8, rel=0.1)


def test_the_driver_has_what_duckdb_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER_MEMORY, "100m")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    with open_database() as database, duckdb.connect() as plain:
        assert limit_of(database) == limit_of(plain)


def test_a_variable_of_the_machine_does_not_reach_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER_MEMORY, "100m")
    assert WORKER_MEMORY not in spark_environment("python3")


def limit_of(connection: duckdb.DuckDBPyConnection) -> float:
    """In MB. DuckDB tells one digit."""
    number, unit = connection.sql("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return float(number) * MEGABYTES[unit]
