"""The demo: it agrees with the CSV and says so, notices when it does not, and leaves nothing running."""

import io
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from examples.nyc_flights.check import compare
from examples.nyc_flights.demo import conclude
from examples.nyc_flights.flights import DAYS
from examples.nyc_flights.make_tables import data_folder
from examples.nyc_flights.oracle import Oracle, Sent
from examples.nyc_flights.screen import Screen
from examples.nyc_flights.stage import PROJECT, clear
from hourline import connect
from hourline_core.errors import HourlineError
from hourline_core.ledger.findings import read_findings
from hourline_core.runtime.lease import lease_holder
from serving_layer.reports.findings import find_findings
from tests.support.speed_process import alive, descendants, wait_until

LONG = pytest.mark.long
"""The demo takes minutes. What it shows, the other tests prove piece by piece."""

COMMAND = [sys.executable, "-m", "examples.nyc_flights.demo"]
PATIENCE = 1200


def started(workspace: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "CI": "true", "KEEP": "", "WORKSPACE": str(workspace)}
    return subprocess.Popen(
        COMMAND, cwd=PROJECT.parents[1], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The workspace of a demo played to its end, and what it printed."""
    workspace = tmp_path_factory.mktemp("demo")
    demo = started(workspace)
    output, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 0, output
    return workspace, output


@LONG
def test_it_says_how_many_cells_of_each_state_agree(played: tuple[Path, str]) -> None:
    last = played[1].rstrip().splitlines()[-1]
    counts = {
        state: int(count.replace(",", ""))
        for count, state in re.findall(r"([\d,]+) (cells|final|provisional|revised)", last)
    }
    assert last.endswith("all equal the CSV")
    assert counts["cells"] > 10_000
    assert min(counts["final"], counts["provisional"], counts["revised"]) > 500


@LONG
def test_no_source_has_a_finding(played: tuple[Path, str]) -> None:
    with connect(PROJECT, played[0]) as connection:
        assert find_findings(connection) == []
        assert read_findings(connection.project, datetime(2013, 1, 1, tzinfo=UTC)) == [], "none was recorded, either"


@LONG
def test_plain_output_has_no_control_characters_and_is_not_long(played: tuple[Path, str]) -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", played[1])
    assert len(played[1].splitlines()) < 170


@LONG
def test_it_leaves_nothing_running(played: tuple[Path, str]) -> None:
    assert lease_holder(played[0], "speed") is None


@LONG
def test_the_hours_of_a_night_without_flights_are_final(played: tuple[Path, str]) -> None:
    with connect(PROJECT, played[0]) as connection:
        nights = connection.sql(
            "SELECT hour(hour), state FROM hours WHERE name = 'flights' AND events = 0 ORDER BY hour"
        ).fetchall()
    # From midnight to five in New York.
    assert {number for number, _ in nights} == set(range(5, 10))
    assert [state for _, state in nights][:5] == ["final"] * 5


@LONG
def test_one_wrong_number_is_found_and_fails_it(played: tuple[Path, str], tmp_path: Path) -> None:
    workspace = played[0]
    tampered = tmp_path / "flights.csv"
    # The first flight of the year left two minutes late; now three.
    tampered.write_text(
        (workspace / "demo" / "flights.csv").read_text().replace("2013,1,1,517,515,2,", "2013,1,1,517,515,3,", 1)
    )
    later = datetime(2014, 1, 1, tzinfo=UTC)
    with connect(PROJECT, workspace) as connection:
        comparison = compare(connection, Oracle(tampered, data_folder(), DAYS).metrics(Sent(later, later)))
    printed = io.StringIO()
    assert conclude(Screen(Console(file=printed, width=200)), comparison) == 1
    assert "departures.mean_delay of 2013-01-01 10:00:00+00:00, EWR, UA" in printed.getvalue()
    # Its mean and its extremes, by every grouping that it is in; no other cell.
    assert 0 < len(comparison.differences) <= 8


@LONG
def test_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    demo = started(tmp_path)
    assert demo.stdout
    for line in demo.stdout:
        if "starting Spark" in line:  # Kafka runs, and Airflow starts.
            break
    family = descendants(demo.pid)
    assert len(family) > 2
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    demo.stdout.close()
    wait_until(lambda: not alive(family), f"{family} outlive the demo")


def test_a_folder_that_is_not_from_a_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(HourlineError, match="not from a demo"):
        clear(tmp_path)
    assert (tmp_path / "thesis.txt").exists()
