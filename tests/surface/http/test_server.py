"""A server: when it begins, beside another one, on tables that come late or cannot be read, and how it stops."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourline_core.errors import TableError
from serving_layer import Connection
from tests.support.bare_tables import BareTables, hour
from tests.support.http_answers import KEYS, VISITS, rows, wait_for
from tests.support.project_files import write_project
from tests.support.visits_tables import grouped, iso, serve_settings, serving, visit_tables


def test_the_first_requests_of_a_server_may_come_at_once(tables: BareTables) -> None:
    with serving(tables.project) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda path: client.get(f"/api/v1/{path}"), ["late", "drift", "status", "quality"] * 2))
    assert [answer.status_code for answer in answers] == [200] * 8, [answer.text for answer in answers]


def test_two_servers_on_the_same_tables_answer_alike_and_one_goes_on_without_the_other(tables: BareTables) -> None:
    paths = [
        "metrics/visits",
        "metrics/visits?format=csv",
        "metrics/visits?format=arrow",
        "hours",
        "project",
        f"explain/visits/{iso(hour(2))}",
        "drift",
    ]
    script = f"""
import sys; from pathlib import Path; sys.path[:0] = {[str(Path(__file__).parents[3])]!r}
import pytest
from tests.support import visits_tables
with pytest.MonkeyPatch.context() as monkeypatch:
    project = visits_tables.visit_tables(Path({str(tables.project.root)!r}), [], monkeypatch).project
from serving_layer.http.server import Server
with Server(project, environ={{}}) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
    with serving(tables.project) as own:
        other = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        try:
            assert other.stdout is not None
            url = other.stdout.readline().strip()
            for path in paths:
                mine, theirs = own.get(f"/api/v1/{path}"), httpx.get(f"{url}/api/v1/{path}", timeout=600)
                assert (mine.content, mine.headers["etag"]) == (theirs.content, theirs.headers["etag"]), path
                assert mine.status_code == 200
            other.send_signal(signal.SIGKILL)
            other.wait()
            assert own.get("/api/v1/metrics/visits", headers={"If-None-Match": "none"}).status_code == 200
        finally:
            other.kill()
            other.wait()


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    source = "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n"
    write_project(tmp_path, {"hourline.yaml": "name: nothing yet", "sources/clicks.yaml": source})
    command = [sys.executable, "-m", "hourline", "serve", "--project", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("nothing yet is served at http://127.0.0.1:"), process.communicate()
        url = said.split(" at ")[1].split(";")[0]
        assert httpx.get(f"{url}/health", timeout=600).json() == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1] == "stopping\nstopped\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_tables_that_could_not_be_read_once_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS[:10], monkeypatch)
    tables.start()
    tables.micro_batch(5)
    failures: list[str] = []

    def failing_once(*arguments: Any, **named: Any) -> Connection:
        if not failures:
            failures.append("a disk that is away for a moment")
            raise TableError(failures[0])
        return Connection(*arguments, **named)

    with serving(tables.project) as client:
        monkeypatch.setattr("serving_layer.snapshots.Connection", failing_once)
        tables.micro_batch(5)  # and nothing after that, which would make it look again
        assert wait_for(client, "p0-clicks.2")
        assert failures
        assert client.get("/health").json() == {"status": "ok"}


def test_a_project_whose_tables_come_later_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS[:5], monkeypatch)
    with serving(serve_settings(tables.project)) as client:
        answer = client.get("/api/v1/metrics/visits")
        assert answer.status_code == 404
        assert "has no tables yet" in answer.json()["error"]
        tables.start()
        tables.micro_batch(5)
        assert wait_for(client, "p0-clicks.1")
        assert rows(client.get("/api/v1/metrics/visits"), *KEYS) == grouped(VISITS[:5], *KEYS)
