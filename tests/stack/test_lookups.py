"""Both layers give events the rows of lookups that a naive pass gives, whether Spark evaluates their source or not."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
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
from hourline import Project, load_project
from hourline.cli import app
from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.open_progress import find_progress
from hourline_core.lookups.refresh import refresh
from hourline_core.model.hours import HourRange, iso_text, wall_clock
from hourline_core.runtime.lease import lease
from serving_layer.reports.drift import report_drift
from serving_layer.reports.lineage import explain_number
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
FIELDS = """\
fields: {tail: string, origin: string, dest: string, at: timestamp}
event_time: at
grace: 0s
lookups:
  plane: tail
  home: {lookup: airport, key: origin}
  away: {lookup: airport, key: dest}
"""
DERIVED = """\
derived: {maker: upper(plane.maker)}
where: away IS NOT NULL
"""
FILES = {
    "hourline.yaml": "",
    "sources/flights.yaml": f"topic: flights\n{FIELDS}",
    "sources/hops.yaml": f"topic: hops\n{FIELDS}{DERIVED}",
    "lookups/plane.yaml": """
        table: planes.csv
        key: tail
        columns: {tail: string, maker: string, seats: int, since: timestamp, until: timestamp}
        valid_from: since
        valid_to: until
        """,
    "lookups/airport.yaml": """
        table: airports.csv
        key: code
        columns: {code: string, zone: string}
        """,
    "metrics/by_maker.yaml": """
        source: flights
        dimensions: {maker: plane.maker}
        measures: {flights: count, seats: sum(plane.seats), far: count where away.zone <> home.zone}
        """,
    "metrics/by_upper.yaml": """
        source: hops
        dimensions: [maker]
        measures: {flights: count, seats: sum(plane.seats), far: count where away.zone <> home.zone}
        """,
    "airports.csv": "code,zone\nJFK,east\nLGA,east\nSFO,west\n",
}
HALF = BASE + timedelta(minutes=90)
PLANES = [
    {"tail": "N1", "maker": "Airbus", "seats": 180, "since": None, "until": HALF},
    {"tail": "N1", "maker": "Boeing", "seats": 200, "since": HALF, "until": None},
    {"tail": "N2", "maker": "Embraer", "seats": 50, "since": None, "until": None},
]
ZONES = {"JFK": "east", "LGA": "east", "SFO": "west"}
FLIGHTS: list[dict[str, Any]] = [
    {"tail": tail, "origin": origin, "dest": dest, "at": BASE + timedelta(minutes=17 * (7 * number % 16))}
    for number, (tail, origin, dest) in enumerate(
        (tail, origin, dest)
        for tail in ("N1", "N2", "N9", None)
        for origin in ("JFK", "LGA")
        for dest in ("SFO", "XXX")
    )
]
LAST = (BASE + timedelta(minutes=17 * (len(FLIGHTS) - 1))).replace(minute=0)
"""The hour that is still open."""
Rows = list[tuple[Any, ...]]


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


def span(root: Path, end: datetime) -> list[str]:
    return ["--from", iso_text(BASE), "--to", iso_text(end), "--project", str(root)]


def recompute_as_of(root: Path, token: str) -> None:
    """Recompute all closed hours with the lookups of an answer."""
    arguments = ["--from", iso_text(BASE), "--to", iso_text(LAST), "--lookups-as-of", token, "--project", str(root)]
    done = CliRunner().invoke(app, ["recompute", *arguments])
    assert done.exit_code == 0, done.output


def import_flights(root: Path, flights: Iterable[Mapping[str, Any]] = FLIGHTS, name: str = "history.jsonl") -> Project:
    """The project in ``root``, whose sources have these flights from a file, too."""
    project = load_project(root)
    history = root / name
    history.write_text("".join(json.dumps({**flight, "at": iso_text(flight["at"])}) + "\n" for flight in flights))
    with lease(project.workspace, "speed"), speed_session(project) as spark:
        for source in project.sources.values():
            import_files(spark, project, source, find_history(project, source, [str(history)]))
    return project


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


def write_planes(root: Path, planes: Iterable[Mapping[str, Any]]) -> None:
    lines = [",".join(text(value) for value in plane.values()) for plane in planes]
    (root / "planes.csv").write_text("\n".join(["tail,maker,seats,since,until", *lines]) + "\n")


def text(value: Any) -> str:
    return "" if value is None else iso_text(value) if isinstance(value, datetime) else str(value)


def read(project: Project, metric: str) -> Rows:
    with serving_layer.connect(project) as connection:
        columns = "hour, maker, flights, seats, far"
        rows: Rows = connection.sql(f"SELECT {columns} FROM {metric} ORDER BY ALL NULLS LAST").fetchall()
    return rows


def always(planes: list[dict[str, Any]]) -> Callable[[int], list[dict[str, Any]]]:
    return lambda _: planes


def until_last(planes: list[dict[str, Any]], of_last: list[dict[str, Any]]) -> Callable[[int], list[dict[str, Any]]]:
    """Other planes in the open hour."""
    return lambda number: of_last if FLIGHTS[number]["at"].replace(minute=0) == LAST else planes


def expected(planes_of: Callable[[int], list[dict[str, Any]]], *, upper: bool = False) -> Rows:
    """The rows by the planes that each flight, by its number, meets."""
    flights: Counter[tuple[Any, ...]] = Counter()
    seats: dict[tuple[Any, ...], int | None] = {}
    far: Counter[tuple[Any, ...]] = Counter()
    for number, flight in enumerate(FLIGHTS):
        hour = flight["at"].replace(minute=0)
        plane = find(planes_of(number), flight["tail"], flight["at"])
        home, away = ZONES.get(flight["origin"]), ZONES.get(flight["dest"])
        if upper and away is None:
            continue
        key = (hour, plane and (plane["maker"].upper() if upper else plane["maker"]))
        flights[key] += 1
        far[key] += away is not None and home != away
        seats[key] = (seats.get(key) or 0) + plane["seats"] if plane else seats.get(key)
    rows = [(*key, flights[key], seats[key], far[key]) for key in flights]
    return sorted(rows, key=lambda row: (row[0], row[1] is None, row[1] or ""))


def find(planes: list[dict[str, Any]], tail: str | None, time: datetime) -> dict[str, Any] | None:
    for plane in planes:
        if (
            plane["tail"] == tail
            and (plane["since"] or time) <= time
            and (plane["until"] is None or time < plane["until"])
        ):
            return plane
    return None


def test_a_changed_row_makes_the_hours_stale_whose_events_it_touches(tmp_path: Path) -> None:
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

    # What a person has chosen stays.
    recompute_as_of(root, refreshed(project, 1).isoformat())
    run(root, "lookups", "--refresh")
    assert {state for hour, state in states(project) if hour < LAST} == {"final"}
    assert read(project, "by_maker") == expected(always(PLANES))

    # Nobody knows what has changed since a version that is no longer kept.
    recompute(project, plan_range(project, HourRange(BASE, LAST)))
    write_planes(root, PLANES[:1])
    refresh(project, project.lookups["plane"], wall_clock)
    for file in DeltaTable(Path(project.tables) / "lookups/plane", version=2).file_uris():
        Path(file).unlink()
    run(root, "lookups", "--refresh")
    assert {hour for hour, state in states(project) if state == "stale"} == closed
    assert {state for _, state in states(project, "total")} == {"final", "provisional"}


def outdated(root: Path) -> int:
    """The number of lookups that `plan` says a recompute has to look at."""
    run(root, "plan", "--results", str(root / "plan.json"))
    found: int = json.loads((root / "plan.json").read_text())["outdated_lookups"]
    return found


def run(root: Path, *arguments: str) -> None:
    done = CliRunner().invoke(app, [*arguments, "--project", str(root)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def states(project: Project, metric: str = "by_maker") -> set[tuple[datetime, str]]:
    with serving_layer.connect(project) as connection:
        return set(connection.sql(f"SELECT hour, state FROM hours WHERE name = '{metric}'").fetchall())


def refreshed(project: Project, number: int) -> datetime:
    """When a version of the planes was committed (UTC)."""
    history = DeltaTable(Path(project.tables) / "lookups/plane").history()
    (told,) = [one["timestamp"] for one in history if one["version"] == number]
    return datetime.fromtimestamp(told / 1000, UTC)
