"""A table that changes while the speed layer runs: later events meet its new rows, and published hours become stale."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batch_layer.findings import look_now
from batch_layer.plan import plan
from hourline import load_project
from hourline_core.ledger.open_progress import find_progress
from hourline_core.model.hours import iso_text
from tests.support.looked_up_flights import BASE, FILES, FLIGHTS, HALF, LAST, PLANES, find, read, states, write_planes
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

# tests/unit/lookups/test_pinning.py shows the interval, test_changed_lookups.py the hours.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

SOLD: list[dict[str, Any]] = [
    *PLANES[:2],
    {**PLANES[2], "until": HALF},
    {**PLANES[2], "maker": "Bombardier", "seats": 70, "since": HALF},
    {"tail": "N9", "maker": "Dornier", "seats": 9, "since": BASE, "until": None},
]
CONTENTS = {1: PLANES, 2: SOLD}
"""By version of the lookup."""
LATER: list[dict[str, Any]] = [
    {**flight, "at": LAST + timedelta(minutes=20, seconds=number)} for number, flight in enumerate(FLIGHTS)
]
"""In the open hour. A leap of the clock needs several of them."""


class Airport:
    """A project whose speed layer reads its table again each second."""

    def __init__(self, root: Path, kafka: str) -> None:
        flights = FILES["sources/flights.yaml"].replace("topic: flights", "topic: refreshed_flights")
        self.files = {name: text for name, text in FILES.items() if "hops" not in name and "upper" not in name}
        self.files["hourline.yaml"] = 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'
        self.root = write_project(root, {**self.files, "sources/flights.yaml": flights})
        self.allow_hours(1)
        write_planes(self.root, PLANES)
        self.sent = StackProject(self.root, kafka, {})

    def allow_hours(self, number: int) -> None:
        """Declare how many hours a change may touch."""
        more = f"        refresh: 1s\n        most_changed_hours: {number}\n"
        write_project(self.root, {"lookups/plane.yaml": f"{FILES['lookups/plane.yaml'].rstrip()}\n{more}"})

    def send(self, flights: Iterable[Mapping[str, Any]]) -> None:
        self.sent.send("flights", ({**flight, "at": iso_text(flight["at"])} for flight in flights))

    def read_all(self) -> None:
        wait_until(lambda: len(self.versions()) == len(self.sent.sent["flights"]), "not all flights are read", 0.2)

    def versions(self) -> dict[tuple[int, int], int]:
        """By partition and offset, the version of the planes that a flight has met."""
        if find_progress(self.sent.project, self.sent.project.sources["flights"]) is None:
            return {}
        addresses = self.sent.sequences("flights")
        progress = find_progress(self.sent.project, self.sent.project.sources["flights"])
        assert progress
        of = {row.sequence: row.lookups["plane"] for row in progress.rows(0, progress.sequence) if row.lookups}
        return {address: of[sequence] for address, sequence in addresses.items()}

    def met(self, *, final: bool) -> Iterator[tuple[datetime, str | None, int | None]]:
        """The hour of each flight, the maker of its plane, and its seats. ``final`` rows are of the newest version."""
        versions = self.versions()
        for one in self.sent.sent["flights"]:
            assert one.body
            at = datetime.fromisoformat(one.body["at"])
            planes = SOLD if final and at < LAST else CONTENTS[versions[one.partition, one.offset]]
            plane = find(planes, one.body["tail"], at)
            maker, seats = (plane["maker"], plane["seats"]) if plane else (None, None)
            yield at.replace(minute=0, second=0), maker, seats

    def check(self, *, final: bool) -> None:
        found: dict[tuple[datetime, str | None], list[int | None]] = {}
        for hour, maker, seats in self.met(final=final):
            found.setdefault((hour, maker), []).append(seats)
        assert {
            (hour, maker): (flights, seats) for hour, maker, flights, seats, _ in read(self.sent.project, "by_maker")
        } == {
            of: (len(seats), sum(one for one in seats if one is not None) if of[1] else None)
            for of, seats in found.items()
        }


def test_a_running_speed_layer_reads_a_changed_table_again(kafka: str, tmp_path: Path) -> None:
    air = Airport(tmp_path / "air", kafka)
    sent = air.sent
    with SpeedProcess(sent) as speed:
        speed.wait_until_ready()
        air.send([*FLIGHTS, *LATER])
        air.read_all()
        air.check(final=False)
        sent.command("recompute")
        assert {state for hour, state in states(sent.project) if hour < LAST} == {"final"}

        write_planes(air.root, SOLD)
        send_until(air, lambda: 2 in air.versions().values())
        before = air.versions().keys()
        air.send(LATER)
        air.read_all()
        assert {version for address, version in air.versions().items() if address not in before} == {2}
        air.check(final=False)

        # More hours than are allowed wait for a person.
        touched = {flight["at"].replace(minute=0) for flight in FLIGHTS if is_touched(flight)} - {LAST}
        assert len(touched) > 1
        sent.command("lookups", "--refresh")
        assert {hour for hour, state in states(sent.project) if state == "stale"} == touched
        assert [one.kind for one in look_now(load_project(air.root, {"KAFKA": kafka}))] == ["changed_lookup"]
        assert plan(load_project(air.root, {"KAFKA": kafka})) == []
        air.allow_hours(len(touched))
        declared = load_project(air.root, {"KAFKA": kafka})
        assert {(one.hour, one.reason) for one in plan(declared)} == {
            (hour, "lookup plane changed") for hour in touched
        }
        sent.command("recompute")
        air.check(final=True)
        assert {state for hour, state in states(sent.project) if hour < LAST} == {"final"}

        # The last good rows count on if the table vanishes.
        (air.root / "planes.csv").unlink()
        send_until(air, lambda: "refused_lookup" in {one.kind for one in look_now(declared)})
        before = air.versions().keys()
        air.send(LATER)
        air.read_all()
        assert {version for address, version in air.versions().items() if address not in before} == {2}
        air.check(final=True)
        speed.stop()


def send_until(air: Airport, condition: Callable[[], bool]) -> None:
    """Send a flight of the open hour again and again. The table is read before a micro-batch."""

    def holds() -> bool:
        air.send(LATER[:1])
        air.read_all()
        return condition()

    wait_until(holds, "the table was not read again", 0.2)


def is_touched(flight: Mapping[str, Any]) -> bool:
    return bool(flight["tail"] == "N9" or (flight["tail"] == "N2" and flight["at"] >= HALF))
