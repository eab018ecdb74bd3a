"""The stream of changed hours over HTTP."""

from pathlib import Path

import httpx
import pytest

from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables, hour
from tests.support.http_answers import next_token, wait_for
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
