"""What `advise grace` prints on a terminal of 80 columns, and as JSON."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.command_line import answer, hourline
from tests.support.visits import Visit, Visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two visits an hour for two days. In each of the first hours, a third one comes three hours later."""
    visits = Visits(tmp_path_factory.mktemp("site"))
    visits.start()
    for number in range(48):
        late = [Visit(number - 3, "/late", 1)] if 3 <= number < 10 else []
        visits.micro_batch(Visit(number, "/", 1), Visit(number, "/", 2), *late)
    return visits.project.root


def test_the_text_has_80_columns_and_ends_with_the_line_to_declare(folder: Path) -> None:
    lines = hourline("advise", "grace", "visits", folder=folder, status=0).splitlines()
    assert lines[0] == "visits: 101 events of 2024-03-01T00:00Z to 2024-03-02T23:00Z"
    assert max(map(len, lines)) <= 80
    # Those of 00:00 to 06:00 came when the clock was at 02:00 to 08:00: an hour after the end.
    rows = {cells[0]: cells[1:] for line in lines[:-4] if (cells := line.split())}
    assert rows["1h"][0] == "93.06"
    assert rows["1h"][-3:] == ["7", "7", "3.6"]
    assert rows["2h"] == ["100.00", "█" * 12, "0", "0", "0.0"]
    assert rows["visits-0"] == ["101", *["93.06"] * 4, "100.00", "100.00"]
    assert rows["06"] == ["5", *["80.00"] * 4, "100.00", "100.00"]
    assert lines[-4:] == [
        "2h (0.0 a day) is the least of these with at most one revision a day.",
        "The declared grace is 1h (3.6 a day). Hours would be final 1h later with",
        "",
        "  grace: 2h",
    ]


def test_json_has_the_numbers_of_the_text(folder: Path) -> None:
    report = json.loads(answer("advise", "grace", "visits", "--format", "json", folder=folder))
    (declared,) = [cost for cost in report["graces"] if cost["grace_seconds"] == report["declared_seconds"]]
    assert (report["events"], declared["late"], report["advised_seconds"]) == (101, 7, timedelta(hours=2).seconds)


def test_where_every_grace_is_long_enough_none_is_needed(folder: Path) -> None:
    lines = answer("advise", "grace", "visits", "--from", "2024-03-01T12", folder=folder).splitlines()
    assert lines[-1] == "  grace: 0s"
    assert "is 1h (0.0 a day). Hours would be final 1h earlier with" in lines[-3]


def test_a_few_hours_are_too_few_to_advise(folder: Path) -> None:
    lines = answer("advise", "grace", "visits", "--from", "2024-03-02", folder=folder).splitlines()
    assert lines[-1] == ("2024-03-02T00:00Z to 2024-03-02T23:00Z is too short to advise a grace: give a day or more.")
