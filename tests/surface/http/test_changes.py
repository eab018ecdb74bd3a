"""The stream of changed hours over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourline import load_project
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import record_findings
from hourline_core.model.hours import HOUR
from serving_layer.http.server import Server
from tests.support.bare_tables import BASE, SHOP, SOURCE, BareTables, hour
from tests.support.http_answers import next_token, wait_for
from tests.support.project_files import write_project
from tests.support.visits_tables import Visit, iso, serving, visit_tables


def test_a_stream_tells_when_an_hour_becomes_final_and_goes_on_where_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0), Visit.of(1), Visit.of(1)], monkeypatch)
    tables.start()
    tables.micro_batch(2)
    with serving(tables.project) as client:
        with client.stream("GET", "/api/v1/changes") as stream:
            lines = stream.iter_lines()
            assert next_token(lines) == ([], {"token": "p0-clicks.1", "complete": False})
            tables.publish(0, metrics=["totals", "visits"])
            told, token = next_token(lines)
            assert token == {"token": "p1-clicks.1", "complete": True}
            assert told == [
                {"metric": name, "hour": iso(hour(0)), "state": "final", "token": "p1-clicks.1"}
                for name in ("totals", "visits")
            ]
        tables.micro_batch(1)
        assert wait_for(client, "p1-clicks.2")
        with client.stream("GET", "/api/v1/changes", headers={"Last-Event-ID": "p0-clicks.1"}) as stream:
            told, token = next_token(stream.iter_lines())
            assert {(one["metric"], one["hour"], one["state"]) for one in told} == {
                (name, iso(hour(number)), state)
                for name in ("totals", "visits")
                for number, state in ((0, "final"), (1, "provisional"))
            }
            assert token == {"token": "p1-clicks.2", "complete": True}


def test_a_stream_goes_on_after_a_restart_of_the_server_or_says_that_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0), Visit.of(1), Visit.of(1)], monkeypatch)
    tables.start()
    tables.micro_batch(2)
    tables.publish(0, metrics=["visits"])
    tables.micro_batch(1)
    with serving(tables.project) as client:
        for since, hours, complete in [
            ("p0-clicks.1", {0, 1}, True),
            ("p1-clicks.1", {1}, True),
            ("p9-a.1", set(), False),
        ]:
            with client.stream("GET", "/api/v1/changes", headers={"Last-Event-ID": since}) as stream:
                told, token = next_token(stream.iter_lines())
            assert {one["hour"] for one in told if one["metric"] == "visits"} == {iso(hour(one)) for one in hours}
            assert token == {"token": "p1-clicks.2", "complete": complete}


def told_since(client: httpx.Client, position: str) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """What a new stream tells at once: each event with its name. And the id of its last one."""
    with client.stream("GET", "/api/v1/changes", headers={"Last-Event-ID": position}) as stream:
        return next_events(stream.iter_lines())


def next_events(lines: Iterator[str]) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    found: list[tuple[str, dict[str, Any]]] = []
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
            continue
        if "event" in fields:  # Comments keep an idle stream open.
            found.append((fields["event"], json.loads(fields["data"])))
            if "id" in fields:
                return found, fields["id"]
        fields = {}
    raise AssertionError("the stream has ended")


def test_a_finding_is_told_when_it_opens_and_closes_also_after_a_restart(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0, 1])
    tables.start()
    tables.micro_batch(2)
    late = Finding("late_share", "clicks", "warn", BASE, BASE, "many come late", "look at it")
    opened = "clicks/late_share/2024-03-01T00:00:00Z/opened"
    with serving(tables.project) as client, client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        _, begun = next_events(lines)
        record_findings(tables.project, [late], BASE)
        events, position = next_events(lines)
        assert [name for name, _ in events] == ["finding", "token"]
        told = events[0][1]
        assert (told["id"], told["change"], told["sentence"]) == (opened, "opened", "many come late")
        assert events[1][1] == {"token": begun.partition("~")[0], "complete": True}
        assert told_since(client, begun) == (events, position)
    record_findings(tables.project, [], BASE + HOUR)
    with serving(tables.project) as client:
        for since, ids in [
            (position, ["closed"]),
            (begun, ["opened", "closed"]),
            (told["token"], ["opened", "closed"]),
        ]:
            events, newest = told_since(client, since)
            found = [data for name, data in events if name == "finding"]
            assert [one["id"].rpartition("/")[2] for one in found] == ids
            assert events[-1][1]["complete"]
            assert newest.startswith(f"{told['token']}~")
        # The id of an event stands for its token.
        assert client.get("/api/v1/metrics/totals", params={"as_of": newest}).status_code == 200
        assert not told_since(client, f"{told['token']}~g1")[0][-1][1]["complete"]


def test_a_window_that_is_final_by_a_confirmation_alone_is_told_also_after_a_restart(tmp_path: Path) -> None:
    write_project(tmp_path, SHOP | {"metrics/by_day.yaml": "from: totals\nwindow: 1 day\n"})
    tables = BareTables(tmp_path, [*range(24), 26])
    tables.start()
    tables.micro_batch(25)
    gap = tables.lose(3, 4)
    tables.publish(*range(24), metrics=["totals"])
    day = {"metric": "by_day", "window_start": iso(hour(0)), "window_end": iso(hour(24)), "state": "final"}
    with serving(load_project(tmp_path)) as client, client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        _, begun = next_events(lines)
        confirm_gap(tables.project, SOURCE, gap, "ada", "it was a test", BASE)
        events, position = next_events(lines)
        token = {"token": begun.partition("~")[0]}
        assert ("window", {**day, **token}) in events
    with serving(load_project(tmp_path)) as client:
        again, newest = told_since(client, begun)
        assert ("window", {**day, **token}) in again
        assert {data["hour"] for name, data in again if name == "hour"} == {iso(hour(3)), iso(hour(4))}
        assert newest == position
        assert [name for name, _ in told_since(client, position)[0]] == ["token"]


def test_a_server_stops_though_streams_are_open(tables: BareTables) -> None:
    with (
        Server(tables.project, environ={}) as server,
        httpx.stream("GET", f"{server.url}/api/v1/changes", timeout=600) as stream,
    ):
        lines = stream.iter_lines()
        next_token(lines)
        server.stop()
        assert list(lines) is not None  # the stream has come to its end, not been torn
    assert not server.running
