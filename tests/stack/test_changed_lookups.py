"""A changed row of a lookup makes exactly the hours stale whose events it touches."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from batch_layer.findings import look_now
from batch_layer.plan import plan, plan_range
from batch_layer.recompute import recompute
from hourline import Project, load_project
from hourline_core.ledger.coverage import read_coverage
from hourline_core.lookups.refresh import refresh
from hourline_core.model.hours import HourRange, wall_clock
from tests.support.looked_up_flights import (
    BASE,
    FILES,
    FLIGHTS,
    HALF,
    LAST,
    PLANES,
    always,
    expected,
    import_flights,
    read,
    recompute_as_of,
    run,
    states,
    until_last,
    write_planes,
)
from tests.support.project_files import write_project

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("has_more", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_changed_row_makes_the_hours_stale_whose_events_it_touches(tmp_path: Path, has_more: bool) -> None:
    files = {name: text for name, text in FILES.items() if "upper" not in name}
    root = write_project(tmp_path / "air", {**files, "metrics/total.yaml": "source: flights\nmeasures: {all: count}\n"})
    write_planes(root, PLANES)
    project = import_flights(root)
    recompute(project, plan(project))
    assert plan(project) == []
    run(root, "lookups", "--refresh")
    assert {state for _, state in states(project)} == {"final", "provisional"}

    # N2 is another plane from HALF on, and N9 becomes known. No row of N1 is another one.
    sold = [*PLANES[:2], {**PLANES[2], "until": HALF}, {**PLANES[2], "seats": 70, "since": HALF}]
    sold.append({"tail": "N9", "maker": "Dornier", "seats": 9, "since": BASE, "until": BASE + timedelta(hours=1)})
    write_planes(root, sold)
    refresh(project, project.lookups["plane"], wall_clock)
    assert outdated(root) == 1, "so that Airflow's run goes on"
    run(root, "lookups", "--refresh")
    assert outdated(root) == 0
    touched = {
        flight["at"].replace(minute=0)
        for flight in FLIGHTS
        if (flight["tail"] == "N2" and flight["at"] >= HALF)
        or (flight["tail"] == "N9" and flight["at"] < BASE + timedelta(hours=1))
    } - {LAST}
    closed = {flight["at"].replace(minute=0) for flight in FLIGHTS} - {LAST}
    assert touched
    assert touched < closed
    assert {hour for hour, state in states(project) if state == "stale"} == touched
    assert {hour for hour, state in states(project) if state == "final"} == closed - touched
    assert {state for _, state in states(project, "total")} == {"final", "provisional"}, "it names no plane"
    why = "lookup plane changed"
    assert {(one.metric, one.hour, one.reason) for one in plan(project)} == {("by_maker", one, why) for one in touched}
    versions = {(one.metric, one.hour): one.lookups for one in read_coverage(project).published_since(BASE)}
    old, new = (json.dumps({"airport": 1, "plane": number}) for number in (1, 2))
    assert versions == {
        (metric, hour): old if metric == "by_maker" and hour in touched else new
        for metric in ("by_maker", "total")
        for hour in closed
    }
    assert read(project, "by_maker") == expected(always(PLANES)), "readers have what was published"

    # More hours than are allowed wait for a person.
    lookup = FILES["lookups/plane.yaml"]
    write_project(root, {"lookups/plane.yaml": f"{lookup.rstrip()}\n        most_changed_hours: {len(touched) - 1}\n"})
    assert plan(load_project(root)) == []
    (found,) = [one for one in look_now(load_project(root)) if one.kind == "changed_lookup"]
    assert f"{len(touched)} published hours met, and {len(touched) - 1} are allowed" in found.sentence
    write_project(root, {"lookups/plane.yaml": f"{lookup.rstrip()}\n        most_changed_hours: {len(touched)}\n"})
    assert not [one for one in look_now(load_project(root)) if one.kind == "changed_lookup"]

    run(root, "recompute")
    assert plan(project) == []
    assert {state for hour, state in states(project) if hour < LAST} == {"final"}
    assert read(project, "by_maker") == expected(until_last(sold, PLANES))

    if has_more:
        see_a_chosen_version_stay(root, project)

    # Nobody knows what has changed since a version that is no longer kept.
    write_planes(root, PLANES[:1])
    refresh(project, project.lookups["plane"], wall_clock)
    for file in DeltaTable(Path(project.tables) / "lookups/plane", version=2).file_uris():
        Path(file).unlink()
    run(root, "lookups", "--refresh")
    assert {hour for hour, state in states(project) if state == "stale"} == closed
    assert {state for _, state in states(project, "total")} == {"final", "provisional"}


def see_a_chosen_version_stay(root: Path, project: Project) -> None:
    """Hours that a person has recomputed by older rows are not stale. They are recomputed by the newest ones after that."""
    recompute_as_of(root, refreshed(project, 1).isoformat())
    run(root, "lookups", "--refresh")
    assert {state for hour, state in states(project) if hour < LAST} == {"final"}
    assert read(project, "by_maker") == expected(always(PLANES))
    recompute(project, plan_range(project, HourRange(BASE, LAST)))


def outdated(root: Path) -> int:
    """The number of lookups that `plan` says a recompute has to look at."""
    run(root, "plan", "--results", str(root / "plan.json"))
    found: int = json.loads((root / "plan.json").read_text())["outdated_lookups"]
    return found


def refreshed(project: Project, number: int) -> datetime:
    """When a version of the planes was committed (UTC)."""
    history = DeltaTable(Path(project.tables) / "lookups/plane").history()
    (told,) = [one["timestamp"] for one in history if one["version"] == number]
    return datetime.fromtimestamp(told / 1000, UTC)
