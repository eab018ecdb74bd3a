"""Both layers give events the rows of lookups that a naive pass gives, whether Spark evaluates their source or not."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import serving_layer
from batch_layer import read_archive
from batch_layer.findings import look_now
from batch_layer.plan import plan, plan_range
from batch_layer.recompute import recompute
from hourline import Project
from hourline.cli import app
from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.open_progress import find_progress
from hourline_core.lookups import join
from hourline_core.lookups.refresh import refresh
from hourline_core.model.hours import HourRange, iso_text, wall_clock
from serving_layer.reports.drift import report_drift
from serving_layer.reports.lineage import explain_number
from tests.support.looked_up_flights import (
    BASE,
    FILES,
    FLIGHTS,
    HALF,
    LAST,
    PLANES,
    always,
    expected,
    find,
    import_flights,
    read,
    recompute_as_of,
    until_last,
    write_planes,
)
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject


def test_lookups_in_both_layers_and_in_a_recount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project(tmp_path / "air", FILES)
    write_planes(root, PLANES)
    project = import_flights(root)
    assert read(project, "by_maker") == expected(always(PLANES))
    assert read(project, "by_upper") == expected(always(PLANES), upper=True)
    with serving_layer.connect(project) as connection:
        first = connection.token

    leased = [PLANES[0], PLANES[1], {**PLANES[2], "maker": "Bombardier", "seats": 70, "until": HALF}]
    write_planes(root, leased)
    newer = refresh(project, project.lookups["plane"], wall_clock).version
    assert newer
    recompute(project, plan(project))
    assert read(project, "by_maker") == expected(until_last(leased, PLANES))
    assert read(project, "by_upper") == expected(until_last(leased, PLANES), upper=True)
    versions = {"airport": 1, "plane": newer.number}
    published = [json.loads(one.lookups or "") for one in read_coverage(project).published_since(BASE)]
    assert published
    assert all(one == versions for one in published)
    progress = find_progress(project, project.sources["flights"])
    assert progress
    assert [row.lookups for row in progress.rows(0, progress.sequence)] == [{"airport": 1, "plane": 1}]

    assert seats_changed(project) == seats_of(leased) - seats_of(PLANES)
    assert met_planes(project) == expected_planes(until_last(leased, PLANES), newer.number)
    with monkeypatch.context() as patch:  # as if the versions were large
        patch.setattr(join, "_MOST_ROWS", 0)
        assert met_planes(project) == expected_planes(until_last(leased, PLANES), newer.number)
    shown = CliRunner().invoke(app, ["explain", "by_maker", iso_text(BASE), "--project", str(root)]).output
    assert f"tail N2 (version {newer.number}): maker Bombardier, seats 70, since null, until {HALF:%Y-%m-%d}" in shown
    assert f"tail null (version {newer.number}): null key; 1 event at history.jsonl[0] offset 14" in shown

    missed = expected_misses(until_last(leased, PLANES))
    assert misses(project, "flights") == misses(project, "hops") == missed

    # A recount takes the versions that were used, which are not the newest ones any more.
    write_planes(root, PLANES[:1])
    refresh(project, project.lookups["plane"], wall_clock)
    arguments = ["--from", iso_text(BASE), "--to", iso_text(BASE + timedelta(hours=2)), "--project", str(root)]
    done = CliRunner().invoke(app, ["verify", "--recount", *arguments])
    assert "all values agree" in done.output, done.output

    # Spark's tasks read as this process does. What the hours were published with is no longer kept.
    of_plane = Path(project.tables) / "lookups/plane"
    for file in DeltaTable(of_plane, version=newer.number).file_uris():
        Path(file).unlink()
    reasons = {one for hour, *_, one in met_planes(project) if hour < LAST}
    assert reasons == {"version not kept", "null key"}
    monkeypatch.setattr(read_archive, "ROWS_OF_TASK", -1)
    recompute(project, plan_range(project, HourRange(BASE, LAST), ["by_maker"]))
    assert read(project, "by_maker") == expected(until_last(PLANES[:1], PLANES))
    assert seats_changed(project) == seats_of(PLANES[:1]) - seats_of(PLANES)
    assert misses(project, "flights") == expected_misses(until_last(PLANES[:1], PLANES))

    recompute_as_of(root, first)
    assert read(project, "by_maker") == expected(always(PLANES))
    assert read(project, "by_upper") == expected(always(PLANES), upper=True)
    assert {one.lookups for one in read_coverage(project).published_since(BASE)} == {'{"airport": 1, "plane": 1}'}


def test_a_micro_batch_uses_the_rows_of_its_time_and_the_last_good_ones(kafka: str, tmp_path: Path) -> None:
    topics = {
        f"sources/{name}.yaml": FILES[f"sources/{name}.yaml"].replace(f"topic: {name}", f"topic: looked_up_{name}")
        for name in ("flights", "hops")
    }
    root = write_project(
        tmp_path / "air",
        {**FILES, **topics, "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'},
    )
    write_planes(root, PLANES)
    project = StackProject(root, kafka, {})
    third = len(FLIGHTS) // 3
    leased = [*PLANES[:2], {**PLANES[2], "maker": "Bombardier", "seats": 70}]

    def drain(first: int, end: int | None) -> None:
        for source in ("flights", "hops"):
            project.send(source, ({**flight, "at": iso_text(flight["at"])} for flight in FLIGHTS[first:end]))
        project.drain()

    drain(0, third)
    write_planes(root, leased)
    drain(third, 2 * third)
    (root / "planes.csv").unlink()
    drain(2 * third, None)

    def planes_of(number: int) -> list[dict[str, Any]]:
        return PLANES if number < third else leased

    assert read(project.project, "by_maker") == expected(planes_of)
    assert read(project.project, "by_upper") == expected(planes_of, upper=True)
    progress = find_progress(project.project, project.project.sources["flights"])
    assert progress
    assert [row.lookups for row in progress.rows(0, progress.sequence)] == [
        {"airport": 1, "plane": version} for version in (1, 2, 2)
    ]
    (found,) = [one for one in look_now(project.project) if one.kind == "refused_lookup" and one.source == "flights"]
    assert "planes.csv" in found.sentence


def seats_changed(project: Project) -> int:
    """The change of seats in all hours and publications. Lookups are its only cause."""
    with serving_layer.connect(project) as connection:
        causes = report_drift(connection, metric="by_maker").causes
    assert {one.cause for one in causes} == {"lookup"}
    return int(sum(one.amount or 0 for one in causes if one.measure == "seats"))


def seats_of(planes: list[dict[str, Any]]) -> int:
    """The seats of all closed hours."""
    return sum(seats or 0 for hour, _, _, seats, _ in expected(always(planes)) if hour < LAST)


def met_planes(project: Project) -> Counter[tuple[Any, ...]]:
    """By hour, tail, version of the lookup, maker and reason, the events as `explain` tells of them."""
    found: Counter[tuple[Any, ...]] = Counter()
    with serving_layer.connect(project) as connection:
        for hour in {flight["at"].replace(minute=0) for flight in FLIGHTS}:
            home, away, plane = sorted(
                explain_number(connection, "by_maker", hour).events.lookups, key=lambda one: one.lookup
            )
            assert [one.name for one in (home, away, plane)] == ["home", "away", "plane"]
            assert (home.unmatched, home.null_keys) == (0, 0)
            assert away.unmatched == sum(
                flight["dest"] == "XXX" for flight in FLIGHTS if flight["at"].replace(minute=0) == hour
            )
            assert plane.matched == sum(one.events for one in plane.rows if one.row)
            for one in plane.rows:
                found[hour, one.key["tail"], one.version, (one.row or {}).get("maker"), one.missed] += one.events
    return found


def expected_planes(
    planes_of: Callable[[int], list[dict[str, Any]]], version_of_final: int
) -> Counter[tuple[Any, ...]]:
    met: Counter[tuple[Any, ...]] = Counter()
    for number, flight in enumerate(FLIGHTS):
        hour = flight["at"].replace(minute=0)
        plane = find(planes_of(number), flight["tail"], flight["at"])
        version = 1 if hour == LAST else version_of_final
        has_key = any(one["tail"] == flight["tail"] for one in planes_of(number))
        reason = "not valid then" if has_key else "no row" if flight["tail"] else "null key"
        missed = None if plane else reason
        met[hour, flight["tail"], version, plane and plane["maker"], missed] += 1
    return met


def misses(project: Project, source: str) -> dict[tuple[datetime, str], int]:
    """By hour and words, the numbers of events that met no plane, as the newest audit tells them."""
    with serving_layer.connect(project) as connection:
        words = "split_part(about, ', ', 2)"
        found = connection.sql(f"""
            SELECT hour, {words} AS words, arg_max(observed, audited)::INTEGER FROM quality
            WHERE source = '{source}' AND metric IS NULL AND success AND words LIKE '% plane' GROUP BY ALL""").fetchall()
    return {(hour, words): number for hour, words, number in found}


def expected_misses(planes_of: Callable[[int], list[dict[str, Any]]]) -> dict[tuple[datetime, str], int]:
    found: Counter[tuple[datetime, str]] = Counter()
    for number, flight in enumerate(FLIGHTS):
        if (hour := flight["at"].replace(minute=0)) < LAST:
            found[hour, "events without a row in plane"] += (
                find(planes_of(number), flight["tail"], flight["at"]) is None
            )
            found[hour, "events with a null key for plane"] += flight["tail"] is None
    return dict(found)
