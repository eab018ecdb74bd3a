"""The DAGs in a real Airflow (its scheduler aside): they import, and a run of theirs does what it says."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hourline.initialise import initialise

DAGS = Path(__file__).parent.parent / "dags"


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("airflow")
    assert run(home, "db", "migrate").returncode == 0
    return home


def run(home: Path, *arguments: str, project: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "HOURLINE_PROJECT": str(project or ""),
    }
    command = [sys.executable, "-m", "airflow", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.stack
def test_a_run_recomputes_what_the_plan_lists(airflow_home: Path, tmp_path: Path) -> None:
    initialise(tmp_path / "project")
    done = run(airflow_home, "dags", "test", "hourly_recompute", "2024-01-02T00:05:00+00:00", project=tmp_path / "project")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to recompute" in done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(DAGS.glob("*.py")), ids=lambda path: path.name)
def test_dags_import_nothing_but_airflow_and_the_standard_library(file: Path) -> None:
    imported = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {name.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == {"airflow"}
