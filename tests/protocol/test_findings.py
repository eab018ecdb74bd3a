"""Findings open by what arrives, and close by themselves when the cause has gone. All thresholds are the defaults."""

import json
import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from batch_layer.findings import look_and_record
from hourline import load_project
from hourline.cli import app
from hourline.exit_status import FOUND, MISTAKE
from hourline_core.errors import UsageError
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.ledger.findings import read_findings
from hourline_core.ledger.layout import Layout
from hourline_core.model.hours import HOUR, Clock, wall_clock
from hourline_core.storage.opening import exists
from serving_layer.connection import Connection
from serving_layer.http.server import Server
from serving_layer.reports.findings import SourceFinding, describe_finding, find_findings
from speed_layer.commit.progress_compaction import compact_progress
from tests.support.arrivals import Arrivals
from tests.support.bare_tables import hour
from tests.support.project_files import write_project

MINUTE = timedelta(minutes=1)
FILES = {
    "hourline.yaml": "",
    "sources/clicks.yaml": """\
        topic: clicks
        fields: {n: long}
        event_time: at
        """,
    "metrics/totals.yaml": "{source: clicks, measures: {n: sum(n)}}",
}


@pytest.fixture
def arrivals(tmp_path: Path) -> Arrivals:
    return Arrivals(tmp_path)


def test_five_good_hours_and_five_of_rejected_records_are_found_at_once(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 5)
    assert arrivals.found(now) == {}
    for number in range(10):
        arrivals.arrive(now + number * HOUR / 2, rejected=20, reason=f"field 'n': got '{number}.5', want long")
    found = arrivals.found(now + 5 * HOUR)
    assert list(found) == ["all_rejected"]
    one = found["all_rejected"]
    assert (one.source, one.severity, one.first, one.last) == (
        "clicks",
        "fail",
        now,
        now + 4.5 * HOUR + timedelta(milliseconds=10),
    )
    assert one.sentence == (
        "every record since 2024-03-01 05:00 UTC was rejected, 200 of them: 200 × field 'n': got '0.5', want long"
    )
    assert one.example == f"clicks[0]@{10 * 20}"
    arrivals.arrive(now + 5 * HOUR, 20)
    assert list(arrivals.found(now + 5 * HOUR)) == ["rejected"]
    arrivals.arrive_hourly(now + 5 * HOUR + MINUTE, 1)
    assert arrivals.found(now + 6 * HOUR) == {}


def test_the_share_of_rejected_records_is_found_with_its_reasons(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 3)
    arrivals.arrive(now, 100, rejected=12)
    arrivals.arrive(now + MINUTE, 0, rejected=3, reason="empty value")
    arrivals.arrive(now + 2 * MINUTE, 10)
    one = arrivals.the("rejected", now + HOUR)
    assert one.sentence == (
        "10.3 % of the records were rejected, 15 of 145 (expected: at most 5 %): 12 × invalid JSON; 3 × empty value"
    )
    assert one.numbers["reasons"] == {"invalid JSON": 12, "empty value": 3}
    arrivals.arrive(now + 2 * HOUR, 10)
    arrivals.recompute()
    assert arrivals.found(now + 2 * HOUR) == {}


def test_a_reason_that_was_never_seen_is_new_for_a_day(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 25)
    arrivals.arrive(now, 20, rejected=1, reason="field 'n': got '1.5', want long")
    assert list(arrivals.found(now)) == ["new_reason"]
    arrivals.arrive(now + HOUR, 20, rejected=1, reason="field 'n': got 'x', want long")
    one = arrivals.the("new_reason", now + HOUR)
    assert one.sentence.endswith("2 × field 'n': got '1.5', want long"), "the value is not part of the fault"
    for number in range(2, 25):
        arrivals.arrive(now + number * HOUR, 20, rejected=1, reason="field 'n': got 'x', want long")
    arrivals.recompute()
    assert arrivals.found(now + 24.5 * HOUR) == {}


def test_a_partition_whose_records_are_rejected_holds_the_clock(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 3, partitions=2)
    for number in range(6):
        arrivals.arrive(now + number * HOUR / 2, 200)
        arrivals.arrive(now + number * HOUR / 2 + MINUTE, rejected=5, partition=1)
    one = arrivals.the("held_clock", now + 3 * HOUR)
    assert one.sentence.startswith(
        "the clock stands at 2024-03-01 02:30 UTC since 2024-03-01 02:30 UTC, held by clicks[1]"
    )
    arrivals.arrive(now + 3 * HOUR, 200, partition=1)
    arrivals.recompute()
    assert arrivals.found(now + 3 * HOUR) == {}


@pytest.mark.parametrize("idle", [None, 15 * MINUTE])
def test_a_dead_partition_is_found_by_what_the_source_declares(tmp_path: Path, idle: timedelta | None) -> None:
    arrivals = Arrivals(tmp_path, idle=idle)
    now = arrivals.arrive_hourly(hour(0), 25, partitions=2)
    for number in range(6):
        arrivals.arrive(now + number * HOUR / 2, 20)
        assert number > 1 or arrivals.found(now + number * HOUR / 2) == {}, "for an hour, it may be chance"
    arrivals.recompute()
    found = arrivals.found(now + 3 * HOUR)
    assert list(found) == ["idle_partition" if idle else "silent_partition"]
    (one,) = found.values()
    assert (one.kind, one.severity) == (("idle_partition", "warn") if idle else ("silent_partition", "fail"))
    assert one.numbers["partitions"] == ["clicks[1]"]
    arrivals.arrive(now + 3 * HOUR, 20, partition=1)
    arrivals.recompute()
    assert arrivals.found(now + 3 * HOUR) == {}


def test_a_source_is_silent_after_twice_its_usual_silence(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 10)
    now = arrivals.arrive_hourly(now + 5 * HOUR, 10)
    now = arrivals.arrive_hourly(now + 3 * HOUR, 10)
    assert arrivals.found(now + 6.4 * HOUR) == {}, "3.5 hours are usual: the longest silence may have been an outage"
    one = arrivals.the("silence", now + 7 * HOUR)
    assert one.sentence == (
        "no record has been read for 7h 29m (usually at most 3h 29m), and the speed layer does not run"
    )
    arrivals.arrive(now + 8 * HOUR, 20)
    arrivals.recompute()
    assert arrivals.found(now + 8 * HOUR) == {}


def test_hours_are_overdue_when_event_time_falls_behind_wall_time(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 30)
    for number in range(4):
        arrivals.arrive(now + number * HOUR, 20, behind=(number + 1) * HOUR)
    one = arrivals.the("overdue_hours", now + 3 * HOUR)
    assert "; 1 hour(s) are overdue" in one.sentence
    arrivals.arrive(now + 3 * HOUR, 20)
    arrivals.recompute()
    assert arrivals.found(now + 3 * HOUR) == {}


def test_hours_wait_for_a_recompute_until_there_is_one(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 3)
    arrivals.arrive(now, 20)
    assert arrivals.found(now + 1.8 * HOUR) == {}
    one = arrivals.the("not_recomputed", now + 2 * HOUR)
    assert (one.numbers["hours"], one.severity) == (1, "warn")
    arrivals.recompute()
    assert arrivals.found(now + 2 * HOUR) == {}
    arrivals.arrive(now + 2 * HOUR, 20, behind=4.5 * HOUR)
    assert arrivals.the("not_recomputed", now + 4 * HOUR).first == now + 2 * HOUR + timedelta(milliseconds=10)


def test_a_gap_is_found_until_a_person_confirms_it(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 2)
    sequence = arrivals.lose(1, 1)
    one = arrivals.the("gap", now)
    assert one.sentence.startswith(f"Kafka deleted at most 10 record(s) before they were read (clicks.{sequence})")
    confirm_gap(arrivals.project, arrivals.project.sources["clicks"], sequence, "ada", "it was a test", now)
    assert arrivals.found(now) == {}


def run(monkeypatch: pytest.MonkeyPatch, arrivals: Arrivals, command: str) -> str:
    """What a command of ``hourline`` says of the project, on both streams. It must succeed."""
    monkeypatch.setattr("hourline_core.model.load_project", lambda *_, **__: arrivals.project)
    done = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_that_a_gap_names_ends_it(arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch) -> None:
    now = arrivals.arrive_hourly(hour(0), 2)
    arrivals.lose(1, 1)
    listing, confirming = re.findall("`hourline ([^`]+)`", arrivals.the("gap", now).remedy)
    assert "clicks." in run(monkeypatch, arrivals, listing)
    run(monkeypatch, arrivals, confirming.replace("…", "it was a test"))
    assert arrivals.found(now) == {}


def test_the_commands_that_show_more_of_a_finding_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = Arrivals(tmp_path, branch="n = 1", id="n")
    now = arrivals.arrive_hourly(hour(0), 2)
    arrivals.arrive(now, 90, late=90, duplicates=150, taken_by_none=1, not_taken=0, rejected=200)
    found = arrivals.found(now)
    assert {"late", "duplicates", "taken_by_none", "rejected"} <= found.keys()
    shown = re.compile("`hourline ((?:query|status|graph)[^`]*)`")
    commands = {command for one in found.values() for command in shown.findall(one.remedy)}
    assert len(commands) >= 2
    for command in commands:
        assert run(monkeypatch, arrivals, command)


def test_shares_of_late_repeated_and_untaken_records_are_found(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, branch="n = 1", id="n")
    now = arrivals.arrive_hourly(hour(0), 2)
    arrivals.arrive(now, 90, late=90, duplicates=150, taken_by_none=1, not_taken=0)
    assert set(arrivals.found(now)) == {"late", "duplicates", "taken_by_none"}
    arrivals.arrive(now + 2 * HOUR, 20)
    arrivals.recompute()
    assert arrivals.found(now + 2 * HOUR) == {}


def test_records_that_a_branch_takes_since_are_not_found(tmp_path: Path) -> None:
    for branch, kinds in (("n = 1", ["taken_by_none"]), ("otherwise", [])):
        arrivals = Arrivals(tmp_path / branch, branch=branch)
        now = arrivals.arrive_hourly(hour(0), 2)
        arrivals.arrive(now, 90, taken_by_none=1, not_taken=0)
        assert list(arrivals.found(now)) == kinds


def test_remembered_ids_are_those_within_the_horizon(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, id="n", findings={"remembered_ids": "1m"})
    now = arrivals.arrive_hourly(hour(0), 2)
    arrivals.arrive(now, 1 << 17)
    assert list(arrivals.found(now)) == ["remembered_ids"]
    arrivals.arrive(now + 25 * HOUR, 20)
    arrivals.recompute()
    assert arrivals.found(now + 25 * HOUR) == {}


def test_old_progress_that_is_compacted_says_the_same(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 30)
    before = arrivals.found(now + 5 * HOUR)
    assert list(before) == ["silence"]
    compact_progress(arrivals.source_tables.progress, now, [])
    assert list(arrivals.found(now + 5 * HOUR)) == ["silence"]


def test_a_finding_is_recorded_once_and_closed(arrivals: Arrivals) -> None:
    now = arrivals.arrive_hourly(hour(0), 2)
    assert look_and_record(arrivals.project, lambda: now) == []
    assert not exists(Layout.of(arrivals.project).findings, {})
    arrivals.arrive(now, rejected=10)
    for number in range(3):
        arrivals.arrive(now + number * MINUTE, rejected=1)
        arrivals.commit()
        (one,) = look_and_record(arrivals.project, clock_at(now + number * MINUTE))
        assert (one.opened, one.first) == (now, now)
    assert [known.closed for known in read_findings(arrivals.project, now)] == [None]
    arrivals.arrive(now + HOUR, 400)
    arrivals.commit()
    assert look_and_record(arrivals.project, clock_at(now + HOUR)) == []
    (known,) = read_findings(arrivals.project, now)
    assert (known.kind, known.opened, known.closed) == ("all_rejected", now, now + HOUR)
    arrivals.arrive(now + 2 * HOUR, rejected=20)
    arrivals.commit()
    again = now + 2 * HOUR
    assert [one.opened for one in look_and_record(arrivals.project, clock_at(again))] == [again]
    with Connection(arrivals.project, clock_at(again)) as connection:
        (told,) = find_findings(connection)
    assert (told.opened, told.closed) == (again, None)
    assert [known.opened for known in read_findings(arrivals.project, again)] == [again]


def test_every_command_says_what_is_found(tmp_path: Path) -> None:
    arrivals = Arrivals(write_project(tmp_path, FILES))
    arrivals.arrive(wall_clock(), 100)
    arrivals.arrive(wall_clock(), rejected=12)
    arrivals.commit()

    def run(*command: str, status: int = 0) -> str:
        done = CliRunner().invoke(app, [*command, "--project", str(tmp_path)], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return done.output

    lines = run("quality", status=MISTAKE).splitlines()
    assert lines[:3] == ["1 finding needs you.", "", "clicks  fail  all rejected"]
    assert lines[3].startswith("found    every record since")
    assert lines[-2].startswith("remedy   mend the producer; or correct sources/clicks.yaml, restart the speed layer")
    assert "clicks: every record since" in run("status")
    assert "clicks: every record since" in run("plan", "--results", str(tmp_path / "plan.json"))
    assert json.loads((tmp_path / "plan.json").read_text())["findings"] is True
    run("recompute", "--results", str(tmp_path / "done.json"), status=FOUND)
    (told,) = json.loads((tmp_path / "done.json").read_text())["findings"]
    assert (told["source"], told["severity"]) == ("clicks", "fail")
    page = (tmp_path / ".hourline" / "quality" / "index.html").read_text()
    assert "1 finding needs you." in page
    assert "every record since" in page

    arrivals.arrive(wall_clock(), 400)
    arrivals.commit()
    assert json.loads(run("quality", "--format", "json"))["findings"] == []
    run("plan", "--results", str(tmp_path / "plan.json"))
    assert json.loads((tmp_path / "plan.json").read_text())["findings"] is True, "its end is to be recorded"
    assert "every record" not in run("maintain")
    run("plan", "--results", str(tmp_path / "plan.json"))
    assert json.loads((tmp_path / "plan.json").read_text())["findings"] is False
    assert "closed at " in run("quality")
    assert "every record since" not in (tmp_path / ".hourline" / "quality" / "index.html").read_text()


def test_sql_python_http_and_the_command_list_the_same(tmp_path: Path) -> None:
    arrivals = Arrivals(write_project(tmp_path, FILES))
    arrivals.arrive(wall_clock(), 100)
    sequence = arrivals.lose(1, 1)
    arrivals.commit()
    look_and_record(arrivals.project)
    confirm_gap(arrivals.project, arrivals.project.sources["clicks"], sequence, "ada", "it is", wall_clock())
    look_and_record(arrivals.project)
    arrivals.arrive(wall_clock(), rejected=12)
    arrivals.commit()

    asked = CliRunner().invoke(app, ["quality", "--format", "json", "--project", str(tmp_path)])
    project = load_project(tmp_path)
    with Server(project, environ={}) as server:
        over_http = httpx.get(f"{server.url}/api/v1/findings").json()
        told = httpx.get(f"{server.url}/api/v1/status").json()["wrong"]
    names = list(SourceFinding.model_fields)
    with Connection(project) as connection:
        rows = connection.sql("FROM findings").select(*names).to_arrow_table().to_pylist()
        in_python = [describe_finding(one).model_dump() for one in find_findings(connection)]
        assert connection.sql("SELECT count(*) FROM findings WHERE closed IS NULL").fetchall() == [(1,)]
        token = connection.token
    with (
        Connection(project, as_of=token) as past,
        pytest.raises(UsageError, match="findings are of now: ask without --as-of"),
    ):
        past.sql("FROM findings")
    assert [(row["kind"], row["closed"] is None) for row in rows] == [("all_rejected", True), ("gap", False)]
    listed = list(map(comparable, rows))
    by_command = json.loads(asked.stdout)
    assert list(map(comparable, [*by_command["findings"], *by_command["closed"]])) == listed
    assert list(map(comparable, [*over_http["findings"], *over_http["closed"]])) == listed
    assert list(map(comparable, in_python)) == listed[:1]
    assert [(one["finding"], one["sentence"]) for one in told] == [("all_rejected", listed[0]["sentence"])]


def comparable(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding whose moments and numbers do not depend on how it was told."""
    found = dict(finding)
    for name in ("first", "last", "opened", "closed"):
        found[name] = datetime.fromisoformat(found[name]) if isinstance(found[name], str) else found[name]
    found["numbers"] = json.loads(found["numbers"]) if isinstance(found["numbers"], str) else found["numbers"]
    return found


def clock_at(moment: datetime) -> Clock:
    return lambda: moment
