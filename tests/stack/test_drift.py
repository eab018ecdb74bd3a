"""Why a recomputed hour changed: each cause against naive Python over the records that were sent, and a fault that
somebody put there.
"""

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import serving_layer
from batch_layer.plan import plan, plan_range
from hourline.cli import app
from hourline_core.model.hours import HourRange
from serving_layer.reports.drift import DriftReport, report_drift
from serving_layer.reports.late import LateHour, list_late_hours
from tests.support import oracle, parcels
from tests.support.oracle import Event
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def made(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project with final, revised and provisional hours."""
    made = parcels.make(tmp_path_factory.mktemp("made"), kafka, topic="drift", few=True)
    made.send("scans", parcels.scans(made.random, 300, first_hour=0, hours=5))
    made.drain()
    made.recompute()
    made.send("scans", parcels.scans(made.random, 50, first_hour=1, hours=1))
    made.drain()
    return made


@pytest.fixture
def project(made: StackProject, tmp_path: Path) -> StackProject:
    """A copy; what any of the tests sends, all copies read that drain the topic after it."""
    copied = made.copy(tmp_path)
    copied.sent = made.sent
    return copied


Amounts = dict[tuple[datetime, str], float]
"""Of the metric flow's number of scans, by hour and cause."""


def test_late_events_and_duplicates_are_told_apart(project: StackProject) -> None:
    assert late_scans(project), "the finished project has late events that no recompute has counted"
    # Repetitions from hours so far back that they are not recognised at once, and late events.
    old = [record.body for record in project.sent["scans"] if record.body and record.body["scan"]][:60]
    project.send("scans", [*parcels.scans(project.random, 150, first_hour=6, hours=2)])
    project.drain()
    project.send("scans", [*old, *parcels.scans(project.random, 100, first_hour=0, hours=4)])
    project.drain()
    assert project.check() > 500

    shown = {(item.hour, item.source): item for item in read_late(project)}
    events = project.events("scans")
    assert {hour: item.events for (hour, _), item in shown.items()} == {
        hour: count for hour, count in oracle.late_events(project.rules["scans"], events).items() if count
    }
    moving = {
        hour: item.moved["flow"]["scans"].amount
        for (hour, _), item in shown.items()
        if "flow" in item.moved and "scans" in item.moved["flow"]
    }
    assert moving == late_scans(project)

    done = project.recompute()
    assert done
    found = scans_changed(report(project))
    assert {hour: amount for (hour, cause), amount in found.items() if cause == "late"} == {
        hour: count for hour, count in moving.items() if ("flow", hour) in {(m, h) for m, h in project.cutoffs}
    }
    assert {hour: -amount for (hour, cause), amount in found.items() if cause == "duplicate"} == repeated_scans(project)
    assert repeated_scans(project)
    assert project.check() > 500
    # What moved is still told when the hour is final again.
    assert {
        item.hour: item.moved["flow"]["scans"].amount
        for item in read_late(project)
        if item.moved.get("flow", {}).get("scans")
    } == moving


@pytest.mark.long
def test_a_fault_in_the_provisional_rows_is_unexplained_and_nothing_else(project: StackProject) -> None:
    project.send("scans", parcels.scans(project.random, 200, first_hour=6, hours=2))
    project.drain()
    hour = parcels.BEGIN + timedelta(hours=6)
    (folder,) = (Path(project.project.tables) / "provisional/flow").iterdir()
    table = DeltaTable(folder)
    of_hour = [row for row in table.to_pyarrow_table().to_pylist() if row["hour"] == hour]
    lost = sum(row["scans"] for row in of_hour if row["depot"] == "north")
    assert lost
    table.delete(f"hour = '{hour:%Y-%m-%dT%H:%M:%SZ}' AND depot = 'north'")

    project.recompute(plan_range(project.project, HourRange(hour, hour + timedelta(hours=1))))
    found = report(project)
    faults = {(c.hour, c.metric, c.measure): c.amount for c in found.causes if c.cause == "unexplained"}
    assert faults[hour, "flow", "scans"] == lost
    assert {(h, metric) for h, metric, _ in faults} == {(hour, "flow")}
    assert "unexplained 1" in command("drift", project)
    assert [
        c["cause"]
        for c in json.loads(
            command("drift", project, "--hour", f"{hour:%Y-%m-%dT%H}", "--metric", "flow", "--format", "json")
        )["causes"]
    ]


@pytest.mark.long
def test_a_changed_metric_is_served_as_it_was_until_the_new_declaration_is_covered(project: StackProject) -> None:
    old = project.rules["scans"]
    flow = old.metrics["flow"]
    path = project.root / "metrics" / "flow.yaml"
    path.write_text(path.read_text().replace("scans: count", "scans: sum(2)"))
    changed = StackProject(project.root, project.kafka, project.rules)
    changed.sent = project.sent
    changed.cutoffs = dict(project.cutoffs)

    assert changed.check_answers() > 500, "nobody has taken the change up yet"
    assert (
        "metric 'flow' has changed; it answers by its older declaration until the speed layer starts again"
        in command("status", changed)
    )
    changed.send("scans", parcels.scans(changed.random, 100, first_hour=4, hours=3))
    changed.drain()
    assert changed.check_answers() > 500, "both are written, the old one is served"
    wanted = {(item.hour, item.metric): item.reason for item in plan(changed.project)}
    assert set(wanted.values()) == {"changed metric", "never covered", "revised"}

    hours = sorted({event.hour for event in changed.events("scans")})
    everything = plan_range(changed.project, HourRange(hours[0], hours[-1] + timedelta(hours=1)), ["flow"])
    changed.recompute(everything[1:])
    recomputed = changed.cutoffs
    changed.cutoffs = {key: cutoff for key, cutoff in recomputed.items() if key[0] != "flow"} | {
        k: c for k, c in project.cutoffs.items() if k[0] == "flow"
    }
    assert changed.check_answers() > 500, "an hour is missing yet"
    assert "metric 'flow' has changed; it answers by its older declaration until its 1 missing hour(s)" in command(
        "status", changed
    )
    changed.cutoffs = recomputed
    changed.recompute(everything[:1])
    doubled = oracle.MetricRule({**flow.measures, "scans": ("sum", lambda body: 2)}, flow.dimensions, flow.where)
    changed.rules = {"scans": oracle.SourceRule(**{**vars(old), "metrics": {**old.metrics, "flow": doubled}})}
    assert changed.check_answers() > 500, "taken over, all hours at once"

    caused = [c for c in report(changed).causes if (c.metric, c.measure, c.cause) == ("flow", "scans", "declaration")]
    assert {c.hour for c in caused} == set(hours)
    assert all(c.final and c.amount == c.final / 2 for c in caused)
    # The stream goes on with the new declaration alone, once it has started again.
    changed.send("scans", parcels.scans(changed.random, 100, first_hour=6, hours=2))
    changed.drain()
    assert changed.check_answers() > 500


def late_scans(project: StackProject) -> dict[datetime, float]:
    """By hour, the scans of late events that no recompute had counted; of the metric flow."""
    rule = project.rules["scans"]
    late: Counter[datetime] = Counter()
    for event in oracle.came_late(rule, project.events("scans")):
        if (
            not event.duplicate
            and rule.where(event.body)
            and event.sequence > project.cutoffs.get(("flow", event.hour), 0)
        ):
            late[event.hour] += 1
    return {hour: float(count) for hour, count in late.items()}


def repeated_scans(project: StackProject) -> dict[datetime, float]:
    """By hour, the events that repeat an id of their hour and were not recognised at once; of the metric flow, in
    recomputed hours.
    """
    seen: set[tuple[datetime, str]] = set()
    repeated: Counter[datetime] = Counter()
    rule = project.rules["scans"]
    for event in project.events("scans"):
        identity = rule.id(event.body)
        if identity is not None and ("flow", event.hour) in project.cutoffs:
            repeated[event.hour] += (event.hour, identity) in seen and not event.duplicate and _counts(rule, event)
            seen.add((event.hour, identity))
    return {hour: float(count) for hour, count in repeated.items() if count}


def _counts(rule: oracle.SourceRule, event: Event) -> bool:
    return bool(rule.where(event.body))


def scans_changed(found: DriftReport) -> Amounts:
    return {
        (c.hour, c.cause): c.amount
        for c in found.causes
        if (c.metric, c.measure) == ("flow", "scans") and c.amount is not None
    }


def report(project: StackProject) -> DriftReport:
    with serving_layer.connect(project.project) as connection:
        return report_drift(connection)


def read_late(project: StackProject) -> list[LateHour]:
    with serving_layer.connect(project.project) as connection:
        return list_late_hours(connection)


def command(name: str, project: StackProject, *options: str) -> str:
    done = CliRunner().invoke(
        app, [name, "--project", str(project.root), *options], env={"KAFKA": project.kafka}, catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.long
def test_doubles_that_cancel_out_are_no_fault(kafka: str, tmp_path: Path) -> None:
    write_project(
        tmp_path,
        {
            "hourline.yaml": 'name: doubles\nkafka: {bootstrap: "${KAFKA}"}\nspeed: {max_records_per_batch: 50}\n',
            "sources/payments.yaml": "topic: doubles\nfields: {at: string, value: double, key: string}\nevent_time: at\npartitions: 3\n",
            "metrics/total.yaml": 'source: payments\nmeasures: {payments: count, total: sum(value), mean: mean(value), share: "ratio(total, payments)"}\n',
        },
    )
    project = StackProject(tmp_path, kafka, {})
    amounts = [0.1, 0.2, 3.3, 1e15, -1e15] * 40
    for part in range(5):
        project.send(
            "payments",
            [{"at": "2024-05-06T20:10:00Z", "value": amount, "key": "k"} for amount in amounts[part::5] + amounts[:7]],
        )
    assert len(project.drain()) > 3, "several micro-batches add them up in parts"
    project.send_everywhere("payments", [{"at": f"2024-05-06T23:1{n}:00Z", "value": 1.0} for n in range(4)])
    project.drain()
    project.send("payments", [{"at": "2024-05-06T20:11:00Z", "value": 0.25}])
    project.send_refused("payments", [b'{"key": "a", "value": "b"}'])
    project.drain()
    assert [row["value"] for row in project.table("rejected", "payments")] == [b'{"key": "a", "value": "b"}'], (
        "the record's, not the field"
    )
    assert {row["key"] for row in project.table("events", "payments")} == {"k", None}, "the field, not the record's"
    project.recompute()
    causes = {(c.measure, c.cause) for c in report(project).causes}
    assert ("payments", "late") in causes
    assert "unexplained" not in {cause for _, cause in causes}
    with serving_layer.connect(project.project) as connection:
        project.check_drift(connection)
