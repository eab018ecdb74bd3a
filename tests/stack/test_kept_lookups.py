"""With `on_change: keep`, events keep the rows that they met, also in a recompute."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import serving_layer
from batch_layer import read_archive
from batch_layer.plan import plan, plan_range
from batch_layer.recompute import recompute
from hourline import Project, load_project
from hourline.cli import app
from hourline_core.ledger.coverage import read_coverage
from hourline_core.lookups.refresh import refresh
from hourline_core.model.hours import HourRange, iso_text, wall_clock
from serving_layer.reports.drift import report_drift
from serving_layer.reports.lineage import explain_number
from tests.support.looked_up_flights import (
    BASE,
    FILES,
    FLIGHTS,
    LAST,
    PLANES,
    always,
    expected,
    import_flights,
    read,
    run,
    span,
    states,
    write_planes,
)
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy


@pytest.mark.long  # tests/unit/lookups/test_join.py finds the rows of the version of each micro-batch.
def test_events_keep_the_rows_of_their_micro_batches(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {
        f"sources/{name}.yaml": FILES[f"sources/{name}.yaml"].replace(f"topic: {name}", f"topic: kept_{name}")
        for name in ("flights", "hops")
    }
    kept = {"lookups/plane.yaml": f"{FILES['lookups/plane.yaml'].rstrip()}\n        on_change: keep\n"}
    root = write_project(
        tmp_path / "air",
        {**FILES, **topics, **kept, "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'},
    )
    project = StackProject(root, kafka, {})
    leased = [*PLANES[:2], {**PLANES[2], "maker": "Bombardier", "seats": 70}]
    contents = (PLANES, leased, [PLANES[2]])
    third = len(FLIGHTS) // 3 + 1
    for number, planes in enumerate(contents):
        write_planes(root, planes)
        for source in ("flights", "hops"):
            some = FLIGHTS[number * third : (number + 1) * third]
            project.send(source, ({**flight, "at": iso_text(flight["at"])} for flight in some))
        project.drain()

    def planes_of(number: int) -> list[dict[str, Any]]:
        return contents[number // third]

    def check() -> None:
        assert read(project.project, "by_maker") == expected(planes_of)
        assert read(project.project, "by_upper") == expected(planes_of, upper=True)

    check()
    monkeypatch.setenv("KAFKA", kafka)
    (root / "planes.csv").write_text("tail,maker,seats,since,until\nN1,Other,1,,\n")
    run(root, "lookups", "--refresh")
    closed = {one.hour for one in plan(project.project)}
    assert len(closed) > 1
    run(root, "recompute")
    check()
    assert {hour for hour, state in states(project.project) if state == "final"} == closed
    published = [one.lookups for one in read_coverage(project.project).published_since(BASE)]
    assert {*published} == {'{"airport": 1}'}
    with serving_layer.connect(project.project) as connection:
        assert {one.cause for one in report_drift(connection).causes} <= {"late"}
    monkeypatch.setattr(read_archive, "ROWS_OF_TASK", -1)
    recompute(project.project, plan_range(project.project, HourRange(BASE, LAST)))
    check()
    monkeypatch.undo()
    monkeypatch.setenv("KAFKA", kafka)

    check_told_versions(project.project, third)
    done = CliRunner().invoke(app, ["verify", "--recount", *span(root, BASE + timedelta(hours=2))])
    assert "all values agree" in done.output, done.output
    run(root, "lookups", "--refresh")
    assert plan(project.project) == [], "a newer version touches no event"
    check_as_of(root)
    check()

    # Without a version, another number is never published by itself.
    needing = forget_second_version(project.project, third)
    check()

    # Whoever declares on_change: restate has all hours restated.
    write_project(root, {"lookups/plane.yaml": FILES["lookups/plane.yaml"]})
    run(root, "lookups", "--refresh")
    closed = {flight["at"].replace(minute=0) for flight in FLIGHTS} - {LAST}
    assert {hour for hour, state in states(load_project(root)) if state == "stale"} == closed - needing


@pytest.mark.long  # test_import_files.py imports, and the test above keeps rows.
def test_imported_events_keep_the_rows_of_their_import(tmp_path: Path) -> None:
    kept = f"{FILES['lookups/plane.yaml'].rstrip()}\n        on_change: keep\n"
    root = write_project(tmp_path / "air", {**FILES, "lookups/plane.yaml": kept})
    half = len(FLIGHTS) // 2
    leased = [*PLANES[:2], {**PLANES[2], "maker": "Bombardier", "seats": 70}]
    for name, flights, planes in (("a.jsonl", FLIGHTS[:half], PLANES), ("b.jsonl", FLIGHTS[half:], leased)):
        write_planes(root, planes)
        refresh(load_project(root), load_project(root).lookups["plane"], wall_clock)
        project = import_flights(root, flights, name)

    def planes_of(number: int) -> list[dict[str, Any]]:
        return PLANES if number < half else leased

    write_planes(root, PLANES[:1])
    refresh(project, project.lookups["plane"], wall_clock)
    recompute(project, plan(project))
    assert {state for hour, state in states(project) if hour < LAST} == {"final"}
    assert read(project, "by_maker") == expected(planes_of)
    assert read(project, "by_upper") == expected(planes_of, upper=True)


@pytest.mark.long  # tests/unit/lookups has the versions that are kept.
def test_hours_of_an_earlier_declaration_are_told_and_recomputed_when_none_of_its_versions_is_kept(
    tmp_path: Path,
) -> None:
    plane = FILES["lookups/plane.yaml"]
    files = {name: text for name, text in FILES.items() if name not in ("sources/hops.yaml", "metrics/by_upper.yaml")}
    files |= {"lookups/plane.yaml": f"{plane.rstrip()}\n        on_change: keep\n"}
    root = write_project(tmp_path / "air", {**files, "metrics/total.yaml": "source: flights\nmeasures: {all: count}\n"})
    write_planes(root, PLANES)
    project = import_flights(root)
    recompute(project, plan(project))

    measures = "measures: {all: count where tail IS NOT NULL}"
    write_project(
        root,
        {
            "lookups/plane.yaml": plane.replace("seats: int", "seats: long"),
            "metrics/total.yaml": f"source: flights\n{measures}\n",
        },
    )
    leased = [*PLANES[:2], {**PLANES[2], "maker": "Bombardier", "seats": 70}]
    write_planes(root, leased)
    run(root, "lookups", "--refresh")
    for file in DeltaTable(Path(project.tables) / "lookups/plane", version=1).file_uris():
        Path(file).unlink()
    done = CliRunner().invoke(app, ["verify", "--recount", "--metric", "by_maker", *span(root, LAST)])
    assert "no version of lookup 'plane' is kept that can be read as source 'flights' declared it" in str(
        done.exception
    )

    end = LAST + timedelta(hours=1)
    project = import_flights(root, [{**FLIGHTS[0], "at": end}], "later.jsonl")  # which closes all hours of before
    recompute(project, plan(project))
    assert [row for row in read(project, "by_maker") if row[0] < end] == expected(always(leased))
    with serving_layer.connect(project) as connection:
        total = connection.sql(f"SELECT sum(\"all\") FROM total WHERE hour < '{end}'").fetchone()
        causes = {one.cause for one in report_drift(connection, metric="total").causes}
    assert total == (sum(flight["tail"] is not None for flight in FLIGHTS),)
    assert causes == {"declaration"}


def check_told_versions(project: Project, third: int) -> None:
    """Each event of the first hour is told with the version that its micro-batch used."""
    with serving_layer.connect(project) as connection:
        (plane,) = [one for one in explain_number(connection, "by_maker", BASE).events.lookups if one.name == "plane"]
    told = Counter[int | None]()
    for one in plane.rows:
        told[one.version] += one.events
    assert told == Counter(
        number // third + 1 for number, flight in enumerate(FLIGHTS) if flight["at"].replace(minute=0) == BASE
    )
    assert len(told) > 1


def check_as_of(root: Path) -> None:
    """`--lookups-as-of` is about other lookups."""
    as_of = ["recompute", "--lookups-as-of", iso_text(wall_clock()), "--skip-open", *span(root, LAST)]
    done = CliRunner().invoke(app, as_of)
    assert "events keep their versions of plane (on_change: keep)" in done.output
    assert done.exit_code == 0, done.output
    airport = FILES["lookups/airport.yaml"]
    write_project(root, {"lookups/airport.yaml": f"{airport.rstrip()}\n        on_change: keep\n"})
    done = CliRunner().invoke(app, as_of)
    assert "--lookups-as-of has no lookup to choose versions of: airport, plane" in str(done.exception)
    write_project(root, {"lookups/airport.yaml": airport})


def forget_second_version(project: Project, third: int) -> set[datetime]:
    """Delete the version that the second third of the flights met. Gives the hours that are blocked for that."""
    of_plane = Path(project.tables) / "lookups/plane"
    for file in DeltaTable(of_plane, version=2).file_uris():
        Path(file).unlink()
    recompute(project, plan_range(project, HourRange(BASE, LAST)))
    numbers = Counter(FLIGHTS[number]["at"].replace(minute=0) for number in range(third, 2 * third))
    needing = {*numbers} - {LAST}
    assert needing
    assert {hour for hour, state in states(project) if state == "blocked"} == needing
    with serving_layer.connect(project) as connection:
        found = connection.sql("SELECT hour, found FROM quality WHERE metric = 'by_maker' AND NOT success").fetchall()
    words = "events whose version of plane is no longer kept (`keep` in lookups/plane.yaml)"
    assert dict(found) == {hour: f"{words}: {numbers[hour]}" for hour in needing}
    return needing
