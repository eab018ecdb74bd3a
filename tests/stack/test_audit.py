"""Nothing unaudited reaches a reader: an hour that does not pass keeps what it had, alone; mended, it publishes by
itself.
"""

import signal
import textwrap
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import serving_layer
from batch_layer.audit import trial
from batch_layer.plan import plan, plan_range
from hourline_core.errors import DeclarationError
from hourline_core.model.hours import HOUR, HourRange, hour_text, wall_clock
from hourline_core.model.trial import with_expectations as load_trial
from hourline_core.runtime.spark import spark_session
from tests.support import oracle, parcels
from tests.support.audit_faults import Faults, faults_of, faults_of_ids_and_sql
from tests.support.audited_project import (
    FIRST,
    SECOND,
    answers,
    lacking,
    new_hours,
    quality,
    recompute_new_hours,
    with_expectations,
)
from tests.support.command_line import Failing
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject
from tests.support.task_faults import tasks_of_few_events

COMPLETE = """
    expectations:
      - expect_column_distinct_values_to_contain_set: {column: depot, value_set: [north, south, west]}
      - expect_column_values_to_be_between: {column: scans, min_value: 1, max_value: 40}
        severity: warn
    """


@pytest.fixture(scope="module")
def sound(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project whose first hours are published, and to which two more hours have come."""
    return publish_some(parcels.make(tmp_path_factory.mktemp("sound"), kafka, topic="audited", few=True))


@pytest.fixture(scope="module")
def native(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """The same with measures that do not need Spark SQL."""
    return publish_some(parcels.make(tmp_path_factory.mktemp("native"), kafka, topic="audited_native", native=True))


def publish_some(project: StackProject) -> StackProject:
    project.send("scans", parcels.scans(project.random, 300, first_hour=0, hours=5))
    project.drain()
    project.recompute()
    project.send("scans", parcels.scans(project.random, 200, first_hour=6, hours=2))
    project.send_everywhere("scans", parcels.scans(project.random, 8, first_hour=9, hours=1))
    project.drain()
    return project


@pytest.fixture
def project(sound: StackProject, tmp_path: Path) -> StackProject:
    """A copy; what any of the tests sends, all copies read that drain the topic after it."""
    return share_sent(sound, tmp_path)


@pytest.fixture(params=[pytest.param("sound", marks=pytest.mark.long), "native"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StackProject]:
    """A copy of each. Tasks of Spark read the archive of the native one."""
    with tasks_of_few_events():
        yield share_sent(request.getfixturevalue(request.param), tmp_path)


def share_sent(sound: StackProject, folder: Path) -> StackProject:
    copied = sound.copy(folder)
    copied.sent = sound.sent
    return copied


@pytest.mark.long
def test_an_audit_that_is_killed_publishes_nothing(either: StackProject) -> None:
    project = either
    before = quality(project)
    with SpeedProcess(project, command="recompute", failpoint="kill after append quality") as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    assert project.check_answers() > 100
    assert quality(project) == before
    project.recompute()
    assert project.blocked == set()
    assert project.check() > 100


def test_a_fault_blocks_what_it_touches_and_nothing_else(either: StackProject) -> None:
    see_blocked(either, faults_of(either))


@pytest.mark.long  # In CI, tests/protocol/test_folding.py has these faults.
def test_a_fault_of_ids_or_sql_blocks_what_it_touches_and_nothing_else(native: StackProject, tmp_path: Path) -> None:
    with tasks_of_few_events():
        see_blocked(share_sent(native, tmp_path), faults_of_ids_and_sql())


def see_blocked(project: StackProject, faults: Faults) -> None:
    """Each of them blocks the hours that it touches alone. Once they are gone, all is published."""
    both = ("flow", "fragile")
    before = {metric: answers(project, metric, FIRST) for metric in both}
    project.blocked = set()
    spark = spark_session(project.project, "batch")
    try:
        for fault, (context, hours) in faults.items():
            with context:
                done = recompute_new_hours(project, spark)
            assert set(done.blocked) == {(metric, hour) for metric in both for hour in hours}, fault
            found = [
                finding
                for hour in quality(project, "--blocked")["hours"]
                for finding in hour["findings"]
                if finding["severity"] == "fail"
            ]
            assert found and all(finding["found"] for finding in found), fault
            # Only after an audit that could not be done, the next recompute tries again.
            assert bool([item for item in plan(project.project) if item.hour in hours]) == (
                fault == "the audit itself falls over"
            ), fault
            project.recomputed(
                [
                    item
                    for item in plan_range(project.project, HourRange(SECOND, SECOND + HOUR))
                    if item.hour not in hours
                ],
                done.cutoffs,
            )
            project.blocked = set(done.blocked)
            assert {metric: answers(project, metric, FIRST) for metric in both} == before, fault
            assert project.check_answers() > 100, fault
        done = recompute_new_hours(project, spark)
    finally:
        spark.stop()
    assert done.blocked == []
    project.blocked = set()
    project.recomputed(new_hours(project), done.cutoffs)
    assert project.check() > 100


@pytest.mark.long
def test_an_expectation_that_nobody_knows_blocks_its_metric(project: StackProject) -> None:
    mistaken = "expectations: [{expect_column_values_to_be_betwen: {column: scans, min_value: 1}}]"
    project = with_expectations(project, "metrics/flow.yaml", mistaken)
    project.recompute(new_hours(project))
    assert project.blocked == {("flow", FIRST), ("flow", SECOND)}
    assert "did you mean 'expect_column_values_to_be_between'?" in project.command("quality", "--blocked", status=1)
    with pytest.raises(DeclarationError, match=r"metrics/flow.yaml:\d+: expectations.0: Great Expectations has no"):
        project.command("check")
    (project.root / "metrics/flow.yaml").write_text(
        (project.root / "metrics/flow.yaml").read_text().replace("betwen", "between")
    )
    project = with_expectations(project, "metrics/flow.yaml", "")
    assert {item.reason for item in plan(project.project) if (item.metric, item.hour) in project.blocked} == {"blocked"}
    project.recompute()
    assert project.blocked == set()


@pytest.mark.long  # test_expectations_on_events.py evaluates them.
def test_what_is_expected_of_events_blocks_every_metric_and_names_the_records(project: StackProject) -> None:
    text = """
        expectations:
          - expect_column_values_to_be_in_set: {column: depot, value_set: [north, south]}
          - expect_column_values_to_be_between: {column: weight, min_value: 0, max_value: 10000}
          - expect_column_mean_to_be_between: {column: per_kilo, min_value: 0}
            severity: warn
        """
    project = with_expectations(project, "sources/scans.yaml", text)
    project.recompute(new_hours(project))
    assert project.blocked == {(metric, hour) for metric in ("flow", "fragile") for hour in (FIRST, SECOND)}
    wrong = {(e.partition, e.offset) for e in project.events("scans") if e.hour == FIRST and e.body["depot"] == "west"}
    (hour,) = (
        hour
        for hour in quality(project, "--blocked", "--metric", "flow")["hours"]
        if hour["hour"][:13] == f"{FIRST:%Y-%m-%dT%H}"
    )
    (finding,) = (finding for finding in hour["findings"] if finding["about"] == "depot")
    assert {(row["partition"], row["offset"]) for row in finding["rows"]} <= wrong
    assert finding["rows"]
    assert project.check_answers() > 100


@pytest.mark.long
def test_an_hour_that_lacks_a_depot_is_blocked_alone_until_its_scans_have_come(project: StackProject) -> None:
    project = with_expectations(project, "metrics/flow.yaml", COMPLETE)
    at = parcels.BEGIN + timedelta(hours=12)
    scan = parcels.scans(project.random, 1, first_hour=12, hours=1)[0] | {
        "at": f"{at:%Y-%m-%dT%H:%M:%S}Z",
        "scan": None,
        "depot": "west",
    }
    project.send("scans", [scan])
    later = [at + timedelta(hours=5, minutes=minute) for minute in range(4)]
    project.send_everywhere("scans", [scan | {"at": f"{moment:%Y-%m-%dT%H:%M:%S}Z"} for moment in later])
    project.drain()
    wanted = {item.hour for item in plan(project.project) if item.metric == "flow"}
    before = answers(project, "flow", at)
    project.recompute()
    assert project.blocked == {("flow", hour) for hour in lacking(project) & wanted}
    assert ("flow", at) in project.blocked
    assert answers(project, "flow", at) == before
    assert project.check_answers() > 100

    told = project.command("quality", "--blocked", status=1)
    assert "missing: north, south" in told and f"{at:%Y-%m-%d %H:%M}" in told
    assert all(Path(hour["report"]).is_file() for hour in quality(project, "--blocked")["hours"])
    project.command("quality", "--metric", "fragile")
    with serving_layer.connect(project.project) as connection:
        staged = connection.sql(
            f"SELECT * EXCLUDE (cutoff) FROM flow_staged WHERE hour = '{at.isoformat()}' ORDER BY ALL"
        ).to_arrow_table()
    assert [dict(row) for row in staged.to_pylist()] == before
    assert not [item for item in plan(project.project) if item.hour == at], (
        "nothing has changed that would make it pass"
    )

    missing = [
        {"at": f"{hour:%Y-%m-%dT%H:%M:%S}Z", "depot": depot}
        for _, hour in project.blocked
        for depot in ("north", "south", "west")
    ]
    project.send("scans", [scan | one for one in missing])
    project.drain()
    assert {item.reason for item in plan(project.project) if (item.metric, item.hour) in project.blocked} == {"blocked"}
    project.recompute()
    assert project.blocked == set()
    assert project.check() > 500
    assert quality(project)["blocked"] == 0
    earlier = quality(project, "--failed", "--metric", "flow")["hours"]
    assert {hour["outcome"] for hour in earlier if hour["hour"].startswith(f"{at:%Y-%m-%dT%H}")} == {"superseded"}


@pytest.mark.long  # tests/protocol/test_accepting_problems.py overrules audits, test_airflow.py one on the stack.
def test_a_person_overrules_an_audit_on_record(project: StackProject, failing: Failing) -> None:
    project = with_expectations(
        project, "metrics/flow.yaml", "expectations: [{expect_table_row_count_to_equal: {value: 1}}]"
    )
    project.recompute(new_hours(project))
    assert project.blocked == {("flow", FIRST), ("flow", SECOND)}
    cutoff = project.last_sequence("scans")
    # What has come since counts on top of what is accepted.
    project.send("scans", parcels.scans(project.random, 30, first_hour=6, hours=1))
    project.drain()
    for refused in (
        ["flow", f"{FIRST:%Y-%m-%dT%H}", "--reason", " "],
        ["flaw", f"{FIRST:%Y-%m-%dT%H}", "--reason", "x"],
        ["flow", "2001-01-01T00", "--reason", "x"],
        ["flow", "yesterday", "--reason", "x"],
    ):
        failing.sentence("accept", *refused, folder=project.root)
    project.command("accept", "flow", f"{FIRST:%Y-%m-%dT%H}", "--reason", "it was a holiday")
    project.blocked.remove(("flow", FIRST))
    project.cutoffs["flow", FIRST] = cutoff
    assert project.check_answers() > 100
    (problem,) = quality(project, "--blocked")["problems"]
    assert [hour["hour"][:13] for hour in problem["hours"]] == [f"{SECOND:%Y-%m-%dT%H}"]
    project.command("accept", problem["accept"].split()[2], "--reason", "all of it")
    project.blocked.remove(("flow", SECOND))
    project.cutoffs["flow", SECOND] = cutoff
    assert project.check_answers() > 100
    accepted = [hour for hour in quality(project, "--metric", "flow")["hours"] if hour["outcome"] == "accepted"]
    assert [finding["found"].partition(": ")[2] for hour in accepted for finding in hour["findings"]] == [
        "it was a holiday",
        "all of it",
    ]


@pytest.mark.long
def test_an_hour_unlike_the_same_hour_of_past_days_is_blocked_once_enough_of_them_are_known(
    project: StackProject,
) -> None:
    project = with_expectations(project, "metrics/flow.yaml", "history: {severity: fail, days: 4, learning: 3}")
    days = [parcels.BEGIN + timedelta(days=1 + day, hours=3) for day in range(6)]
    scan = parcels.scans(project.random, 1, first_hour=0, hours=1)[0] | {"scan": None, "depot": "north"}
    for day, count in zip(days, [20, 80, 20, 21, 80, 20], strict=True):
        project.send("scans", [scan | {"at": f"{day:%Y-%m-%dT%H:%M:%S}Z"}] * count)
    project.send("scans", [scan | {"at": f"{days[-1] + timedelta(hours=9):%Y-%m-%dT%H:%M:%S}Z"}])
    project.drain()
    project.recompute(
        [item for day in days for item in plan_range(project.project, HourRange(day, day + HOUR), ["flow"])]
    )
    # The second day is as wild as the fifth, but then too little was known.
    assert project.blocked == {("flow", days[4])}
    (hour,) = quality(project, "--blocked")["hours"]
    told = {finding["about"]: finding for finding in hour["findings"]}
    assert (told["scans beyond past days"]["observed"], told["scans beyond past days"]["origin"]) == (80.0, "history")
    assert 0 < told["scans beyond past days"]["lower"] < 20.5 < told["scans beyond past days"]["upper"] < 80
    assert project.check_answers() > 100


@pytest.mark.long
def test_a_trial_finds_in_events_what_the_audit_of_a_recompute_finds(
    project: StackProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
    expectations:
      - expect_column_values_to_be_in_set: {{column: depot, value_set: [north, south]}}
      - expect_column_values_to_not_be_null: {{column: weight, mostly: 0.5}}
        severity: warn
      - expect_column_values_to_be_between: {{column: weight, max_value: 0}}
        when: "rows >= 100000"
      - expect_table_row_count_to_equal: {{value: 1}}
        when: "hour_of_day = {FIRST.hour}"
    """
    file = tmp_path / "tried.yaml"
    file.write_text(textwrap.dedent(text))
    spark = spark_session(project.project, "batch")
    monkeypatch.setattr(trial, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(trial, "stop_spark", lambda spark: None)
    tried_project = load_trial(project.project, project.project.sources["scans"], file)
    hours = HourRange(FIRST, SECOND + HOUR)
    try:
        tried = trial.try_on_events(
            tried_project, tried_project.sources["scans"], hours, wall_clock, lambda total: lambda done: None
        )
        recompute_new_hours(with_expectations(project, "sources/scans.yaml", text), spark)
    finally:
        spark.stop()
    of_trial = {
        (finding.hour, finding.check.type, finding.applied, finding.success, finding.unexpected)
        for finding in tried.findings
        if finding.check.origin == "user"
    }
    with serving_layer.connect(project.project) as connection:
        rows = connection.sql(
            "SELECT hour, expectation, applied, success, unexpected FROM quality "
            f"WHERE origin = 'user' AND metric IS NULL AND hour BETWEEN '{FIRST}' AND '{SECOND}'"
        ).fetchall()
    assert {(hour_text(hour), *rest) for hour, *rest in rows} == of_trial
    assert {(applied, success) for _, _, applied, success, _ in of_trial} == {
        (True, True),
        (True, False),
        (False, True),
    }
    assert tried.hours_that_would_be("blocked") == {hour_text(FIRST), hour_text(SECOND)}


@pytest.mark.long  # tests/protocol/test_expectations_of_windows.py proves it, and test_clickstream.py with Spark
def test_what_is_expected_of_a_window_is_judged_by_each_recompute_that_leaves_it_complete(
    project: StackProject,
) -> None:
    """FIRST and SECOND are one window of two hours. It wants one scan more than there are."""
    project.drain()
    rule, everything = project.rules["scans"], project.events("scans")
    cutoffs = dict.fromkeys((("flow", event.hour) for event in everything), project.last_sequence("scans"))
    count = sum(event.hour in (FIRST, SECOND) for event in oracle.counted(rule, "flow", everything, cutoffs))
    expected = f"{{column: scans, min_value: {count + 1}, max_value: {count + 1}}}"
    text = f"""
        window: 2h
        expectations:
          - expect_column_sum_to_be_between: {expected}
            about: window
            when: "hour_of_day = {FIRST.hour}"
        """
    project = with_expectations(project, "metrics/flow.yaml", text)
    scan = parcels.scans(project.random, 1, first_hour=6, hours=1)[0]
    late = [scan | {"at": f"{FIRST:%Y-%m-%dT%H:%M:%S}Z", "scan": None, "depot": "west"}]

    def recompute_flow(*hours: datetime) -> None:
        chosen = HourRange.spanning(hours)
        project.recompute([item for item in plan_range(project.project, chosen, ["flow"]) if item.hour in hours])

    recompute_flow(FIRST)
    assert project.blocked == set(), "a window that lacks an hour is not judged"
    recompute_flow(SECOND)
    assert project.blocked == {("flow", SECOND)}
    (problem,) = quality(project, "--blocked")["problems"]
    assert (problem["unit"], [hour["hour"][:13] for hour in problem["hours"]]) == ("window", [f"{SECOND:%Y-%m-%dT%H}"])
    assert problem["hours"][0]["found"] == f"window {hour_text(FIRST)} to {hour_text(SECOND + HOUR)}: found {count}"
    assert "expect_column_sum_to_be_between, of windows, when hour_of_day" in project.command("quality", status=1)
    assert project.check_answers() > 100
    assert not {("flow", SECOND), ("flow", FIRST)} & {(item.metric, item.hour) for item in plan(project.project)}

    # A late event mends the window: its hour takes the blocked one along.
    project.send("scans", late)
    project.drain()
    reasons = {item.hour: item.reason for item in plan(project.project) if item.metric == "flow"}
    assert (reasons[FIRST], reasons[SECOND]) == ("revised", "blocked")
    recompute_flow(FIRST, SECOND)
    assert project.blocked == set()
    # The next one is one too many: the window is judged again, and the hours that are not recomputed stay published.
    project.send("scans", late)
    project.drain()
    recompute_flow(FIRST)
    assert project.blocked == {("flow", FIRST)}
    assert project.check_answers() > 100
    with serving_layer.connect(project.project) as connection:
        window = connection.sql(f"SELECT sum(scans) FROM flow WHERE window_start = '{FIRST.isoformat()}'").fetchall()
    assert window == [(count + 2,)], "a blocked hour keeps what it had, and the late scan on top"
    tried = trial.try_on_results(
        project.project,
        project.project.metrics["flow"],
        HourRange(FIRST, SECOND + HOUR),
        wall_clock,
        lambda _: lambda _: None,
    )
    applied = {(one.hour, one.success) for one in tried.findings if one.applied and one.check.unit == "window"}
    assert applied == {(hour_text(FIRST), True), (hour_text(SECOND), True)}, "what is published is one scan less"
