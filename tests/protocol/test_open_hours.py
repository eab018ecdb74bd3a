"""A range with open hours on the command line and in Airflow: which hours are recomputed, and what is said of the rest.

The hours that are recomputed here have no events, so no Spark starts.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from typer.testing import CliRunner

import serving_layer
from hourline.airflow import Settings, backfill_day, backfill_month, recompute_hours, recompute_range
from hourline.airflow.commands import log
from hourline.cli import app
from hourline_core.model.hours import hour_text
from tests.support.command_line import Failing, failing  # noqa: F401 (fixture)
from tests.support.visits import Visit, Visits, hour

DAY = hour(0)
"""Its first five hours are closed, and have no events. The next two are open. The second of them has an event."""
RANGE = ("--from", "2024-03-01", "--to", "2024-03-02")
QUIET = ("--from", "2024-03-01T03", "--to", "2024-03-01T06")
"""Hours without events, the last of which is open."""
REFUSED = (
    "2024-03-01T05:00Z has not closed yet: its events may still be arriving; give --skip-open to leave open hours out, "
    "or --include-open to recompute them all the same"
)
LEFT_OUT = "left out, since not closed yet: 2 hour(s), 2024-03-01T05:00Z … 2024-03-01T06:00Z, of loads"
OPEN = "left out, since not closed yet: visits: 2024-03-01T05:00Z, 2024-03-01T06:00Z"
LATER = "the hourly run recomputes them once they have closed"
NO_HOUR = (
    "nothing to recompute: no source has an hour from {} to {}; clear this task to run it again once there are events"
)


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    """A visit in the last hour of the day before, and one at six of the day."""
    site = Visits(tmp_path)
    (tmp_path / "metrics" / "unseen.yaml").unlink()
    site.start()
    site.micro_batch(Visit(-1, "home", 5), Visit(6, "home", 5))
    return site


@pytest.fixture(autouse=True)
def command_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's command runs in the process of the test, since a process of its own takes seconds to start."""

    def run_command(settings: Settings, *arguments: str) -> None:
        for line in said(Path(settings.folder), *arguments).splitlines():
            log.info("%s", line)

    monkeypatch.setattr("hourline.airflow.commands.run_command", run_command)


def final(site: Visits) -> set[int]:
    """The hours of the day whose results are final."""
    with serving_layer.connect(site.project.root) as connection:
        rows = connection.sql("SELECT hour FROM hours WHERE name = 'loads' AND state = 'final'").fetchall()
    return {(moment - DAY) // timedelta(hours=1) for (moment,) in rows}


def said(folder: Path, *arguments: str) -> str:
    """What a command says that succeeds, on both streams."""
    done = CliRunner().invoke(app, [*arguments, "--project", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def run_task(
    task: Callable[[Settings], dict[str, Any]], site: Visits, monkeypatch: pytest.MonkeyPatch, **context: Any
) -> dict[str, Any]:
    """What the function of a task returns in a run of a DAG with this context."""
    run = SimpleNamespace(start_date=datetime.now(UTC), run_type=context.pop("run_type", "manual"))
    given = {"params": {"metrics": None}, "dag_run": run, **context}
    monkeypatch.setattr("hourline.airflow.tasks.get_current_context", lambda: given)
    return task(Settings.of_project(str(site.project.root)))


def asked(start: str, end: str, *, include_open: bool = False) -> dict[str, Any]:
    """The params of `recompute_range`."""
    return {"from": start, "to": end, "metrics": ["loads"], "include_open": include_open}


@pytest.mark.parametrize("command", ["backfill", "recompute"])
def test_open_hours_of_a_range_are_refused_or_left_out(
    site: Visits,
    command: str,
    failing: Failing,  # noqa: F811
) -> None:
    folder = site.project.root
    assert failing.sentence(command, *RANGE, folder=folder) == REFUSED
    assert final(site) == set()
    assert LEFT_OUT in said(site.project.root, command, *RANGE, "--skip-open").splitlines()
    assert final(site) == {0, 1, 2, 3, 4}
    assert failing.sentence(command, *RANGE, "--skip-open", "--include-open", folder=folder) == (
        "give --skip-open or --include-open, not both: --skip-open leaves open hours out, --include-open does not"
    )


@pytest.mark.parametrize("option", ["--skip-open", "--include-open"])
def test_an_option_about_open_hours_is_refused_without_a_range(site: Visits, option: str, failing: Failing) -> None:  # noqa: F811
    assert failing.sentence("recompute", option, folder=site.project.root) == (
        "give --include-open or --skip-open with a range, --from and --to: the plan has closed hours"
    )
    assert final(site) == set()


@pytest.mark.parametrize("command", ["backfill", "recompute"])
def test_open_hours_of_a_range_are_recomputed_by_an_option(site: Visits, command: str) -> None:
    assert "left out" not in said(site.project.root, command, *QUIET, "--include-open")
    assert final(site) == {3, 4, 5}


@pytest.mark.parametrize("command", ["backfill", "recompute"])
def test_a_range_without_a_closed_hour_says_why_there_is_nothing_to_do(
    site: Visits,
    command: str,
    failing: Failing,  # noqa: F811
) -> None:
    still_open, past, future = (
        ("--from", "2024-03-01T05", "--to", "2024-03-01T07"),
        ("--from", "2024-02-01", "--to", "2024-02-02"),
        ("--from", "2126-03-01", "--to", "2126-03-02"),
    )
    assert said(site.project.root, command, *still_open, "--skip-open").splitlines()[:2] == [
        LEFT_OUT,
        "nothing to recompute: no hour of that range has closed yet",
    ]
    no_hour = "nothing to recompute: no source has an hour in that range"
    for options in ([], ["--skip-open"], ["--include-open"]):
        assert said(site.project.root, command, *past, *options).splitlines()[0] == no_hour
    metric = next(iter(site.project.metrics))
    of_metric = said(site.project.root, command, *past, "--metric", metric).splitlines()[0]
    assert of_metric == "nothing to recompute: no chosen metric has an hour in that range"
    in_future = "nothing to recompute: that range lies in the future; it is now "
    for option in ("--skip-open", "--include-open"):
        assert said(site.project.root, command, *future, option).startswith(in_future)
    assert "lies in the future; it is now" in failing.sentence(command, *future, folder=site.project.root)
    assert final(site) == set()


def test_a_dry_run_names_the_open_hours_and_the_options_for_them(site: Visits) -> None:
    plain = said(site.project.root, "backfill", *RANGE, "--dry-run").splitlines()[0]
    hours = "2 hour(s), 2024-03-01T05:00Z … 2024-03-01T06:00Z"
    assert plain == f"not closed yet, and refused without --skip-open or --include-open: {hours}"
    skipping = said(site.project.root, "backfill", *RANGE, "--dry-run", "--skip-open")
    assert LEFT_OUT in skipping.splitlines()
    assert "5 hours, 5 hours × metrics, 0 events" in skipping


def test_a_problem_is_named_without_options_for_open_hours(
    site: Visits,
    failing: Failing,  # noqa: F811
) -> None:
    for option in ("--skip-open", "--include-open"):
        sentence = failing.sentence("recompute", "--problem", "a1b2c3d4", option, folder=site.project.root)
        assert sentence == "give --problem alone: it names its hours and metrics"


# In CI, tests/stack/test_airflow_backfill.py backfills a month with open hours.
@pytest.mark.parametrize("backfill", [backfill_day, pytest.param(backfill_month, marks=pytest.mark.long)])
def test_airflows_backfill_recomputes_the_closed_hours_of_its_partition_and_names_the_open_ones(
    site: Visits,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    backfill: Callable[[Settings], dict[str, Any]],
) -> None:
    with caplog.at_level("INFO"):
        outcome = run_task(backfill, site, monkeypatch, partition_date=DAY, run_type="backfill")
    assert outcome["blocked"] == {}
    assert len(outcome["reports"]) == 1
    assert final(site) == {0, 1, 2, 3, 4}
    assert LEFT_OUT in caplog.messages
    assert caplog.messages[-1] == f"{OPEN}; {LATER}"
    # A try that finds all of it done has had hours to recompute.
    assert run_task(backfill, site, monkeypatch, partition_date=DAY, run_type="backfill")["blocked"] == {}


def test_a_range_in_airflow_has_its_open_hours_left_out_or_included_by_a_param(
    site: Visits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = ("2024-03-01T03", "2024-03-01T06")
    run_task(recompute_range, site, monkeypatch, params=asked(*quiet))
    assert final(site) == {3, 4}
    assert caplog.messages[-1] == (
        f"left out, since not closed yet: visits: 2024-03-01T05:00Z; {LATER}; "
        "with the param include_open, this DAG recomputes them now"
    )
    caplog.clear()
    run_task(recompute_range, site, monkeypatch, params=asked(*quiet, include_open=True))
    assert final(site) == {3, 4, 5}
    assert "left out" not in caplog.text


@pytest.mark.parametrize(
    ("backfill", "first", "end"),
    [
        (backfill_day, DAY - timedelta(days=9), DAY - timedelta(days=8)),
        (backfill_day, DAY + timedelta(days=1), DAY + timedelta(days=2)),
        (backfill_day, DAY.replace(year=2126), DAY.replace(year=2126) + timedelta(days=1)),
        (backfill_month, datetime(2023, 2, 1, tzinfo=UTC), datetime(2023, 3, 1, tzinfo=UTC)),
        (backfill_month, datetime(2023, 12, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_partition_without_an_hour_is_skipped_and_says_how_to_run_it_again(
    site: Visits,
    monkeypatch: pytest.MonkeyPatch,
    backfill: Callable[[Settings], dict[str, Any]],
    first: datetime,
    end: datetime,
) -> None:
    with pytest.raises(AirflowSkipException) as skipped:
        run_task(backfill, site, monkeypatch, partition_date=first, run_type="backfill")
    assert str(skipped.value) == NO_HOUR.format(hour_text(first), hour_text(end))


def test_hours_of_a_metric_that_is_not_in_use_yet_are_skipped_with_what_takes_it_up(
    site: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.project.root / "metrics" / "loads.yaml"
    file.write_text(file.read_text().replace("worst: max(ms)", "best: min(ms)"))
    with pytest.raises(AirflowSkipException) as skipped:
        run_task(backfill_day, site, monkeypatch, partition_date=DAY, run_type="backfill")
    end = hour_text(DAY + timedelta(days=1))
    assert str(skipped.value) == (
        f"nothing to recompute: no metric that is in use has an hour from {hour_text(DAY)} to {end}; metric 'loads' has "
        "changed; it answers by its older declaration until the speed layer starts again (`hourline down`, "
        "`hourline up`); clear this task to run it again after that"
    )
    said_by_command = said(site.project.root, "backfill", *RANGE, "--skip-open").splitlines()
    assert "nothing to recompute: no metric that is in use has an hour in that range" in said_by_command


@pytest.mark.parametrize("include_open", [False, True])
def test_a_range_in_the_future_is_skipped_whatever_is_said_of_open_hours(
    site: Visits, monkeypatch: pytest.MonkeyPatch, include_open: bool
) -> None:
    params = asked("2126-03-01", "2126-03-02T05", include_open=include_open)
    with pytest.raises(AirflowSkipException) as skipped:
        run_task(recompute_range, site, monkeypatch, params=params)
    assert str(skipped.value) == NO_HOUR.format("2126-03-01", "2126-03-02T05")


def test_an_hourly_run_of_airflows_backfill_skips_its_hour_while_it_is_open(
    site: Visits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AirflowSkipException) as skipped:
        run_task(recompute_hours, site, monkeypatch, partition_date=hour(5), run_type="backfill")
    reason = "nothing to recompute: no hour from 2024-03-01T05:00Z to 2024-03-01T06:00Z has closed yet"
    assert str(skipped.value) == reason
    assert caplog.messages[-1] == f"left out, since not closed yet: visits: 2024-03-01T05:00Z; {LATER}"
    run_task(recompute_hours, site, monkeypatch, partition_date=hour(4), run_type="backfill")
    assert final(site) == {4}
