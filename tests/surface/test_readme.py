"""The pages for people hold together: the README shows what the tutorial shows, Python blocks run, links lead somewhere,
and the reference names every key in its section.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pydantic
import pytest

from hourline_core.model import (
    AirflowSettings,
    BatchSettings,
    EventTime,
    Field,
    History,
    KafkaSettings,
    Metric,
    ScheduleSettings,
    ServeSettings,
    Settings,
    Source,
    SparkSettings,
    SpeedSettings,
)
from tests.support.shown import README, ROOT, TUTORIAL, blocks, commands

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
REFERENCE = (ROOT / "docs/reference/settings-and-declarations.md").read_text(encoding="utf-8")


def test_the_readme_is_a_part_of_the_tutorial_which_tests_run() -> None:
    tutorial = commands(TUTORIAL)
    shown = list(commands(README))
    assert len(shown) > 10
    for step in shown:
        assert step in tutorial, step  # which also moves on, so that the order is the same


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


# The tutorial's needs what its commands have made: tests/stack runs them together.
@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL and blocks(page, "python")], ids=str)
def test_a_python_block_runs(page: Path, tmp_path: Path) -> None:
    for code in blocks(page, "python"):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        defines = code.startswith(("# measures/", "# folds/"))  # It is a file of a project, and prints nothing.
        assert done.returncode == 0 and (done.stdout or defines), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_file_leads_to_it(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def links(page: Path) -> Iterator[str]:
    """The targets of a page's links and pictures, but for other sites."""
    for target in re.findall(r"\]\(([^()\s]+)\)", without_code(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """What the headings of a page are addressed by."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("model", "section"),
    [
        (Source, "Sources"),
        (EventTime, "Event time"),
        (Field, "Fields"),
        (Metric, "Metrics"),
        (History, "History"),
        (Settings, "Settings"),
        (KafkaSettings, "kafka"),
        (SparkSettings, "spark"),
        (SpeedSettings, "speed"),
        (BatchSettings, "batch"),
        (ScheduleSettings, "schedule"),
        (AirflowSettings, "airflow"),
        (ServeSettings, "serve"),
    ],
)
def test_the_reference_names_every_key(model: type[pydantic.BaseModel], section: str) -> None:
    text = REFERENCE.partition(f"# {section}\n")[2].partition("\n#")[0]
    prefix = f"{section}." if section.islower() else ""
    assert [key for key in model.model_fields if f"| `{prefix}{key}` |" not in text] == []
