"""What an installed Hourline holds, as far as it can be told without building it."""

import tomllib
from pathlib import Path

import pytest

import hourline
from hourline.cli.airflow import dag_folder

TOP = Path(__file__).parents[3]
WHEEL = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]


def test_no_package_has_a_name_that_belongs_to_others() -> None:
    assert not {"dags", "infra", "tests", "examples", "benchmarks"} & set(WHEEL["packages"])


def test_in_a_checkout_airflow_reads_the_folder_at_the_top() -> None:
    assert dag_folder() == TOP / "dags"


def test_installed_airflow_reads_what_the_wheel_has_put_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / WHEEL["force-include"]["dags"]
    installed.mkdir(parents=True)
    monkeypatch.setattr(hourline, "__file__", str(tmp_path / "hourline" / "__init__.py"))
    assert dag_folder() == installed
