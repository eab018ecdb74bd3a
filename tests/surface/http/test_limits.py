"""Limits over HTTP: what is too large, too long or too much is refused, and a slow or greedy client leaves the others
their share.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.types import Message

from serving_layer import Connection
from serving_layer.http import heads, limits
from serving_layer.http.access import Client, Guard, Tokens
from serving_layer.http.answering import Answering, Body
from serving_layer.http.error_responses import TimedOutError, TooManyError, install_problems, log
from serving_layer.http.limits import BODY_BYTES, OPEN_PER_CLIENT, Limited, Turns
from serving_layer.http.server import Server
from serving_layer.snapshots import Snapshots
from tests.support.bare_tables import BareTables
from tests.support.visits_tables import serve_settings, serving, some_visits, visit_tables

ONE, OTHER = "1" * 16, "2" * 16
ENVIRON = {"HOURLINE_READER_TOKEN": ONE, "HOURLINE_ADMIN_TOKEN": OTHER}
AS_ONE, AS_OTHER = ({"Authorization": f"Bearer {token}"} for token in (ONE, OTHER))
LONG = timedelta(minutes=10)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("limits"), some_visits(40), monkeypatch)
        tables.start()
        tables.micro_batch(40)
        yield tables


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Connection], Any]], None]:
    """Has /api/v1/late do something else."""

    def compute(work: Callable[[Connection], Any]) -> None:
        monkeypatch.setattr("serving_layer.http.hour_routes.list_late_hours", lambda connection, _: work(connection))

    return compute


def for_ever(connection: Connection) -> None:
    connection.database.execute("SELECT count(*) FROM range(1_000_000_000_000_000) WHERE range % 7 = 8").fetchall()


def telling(begun: threading.Event) -> Callable[[Connection], None]:
    """``for_ever``, which says when it begins."""

    def compute(connection: Connection) -> None:
        begun.set()
        for_ever(connection)

    return compute


def test_answers_have_at_most_so_many_rows_and_bytes(tables: BareTables) -> None:
    with serving(tables.project, rows=10, bytes=1_500) as client:
        assert client.get("/api/v1/metrics/visits?limit=11").json() == {
            "error": "got limit 11, allowed are 10 rows on a page (serve.rows)"
        }
        assert client.get("/api/v1/metrics/visits?limit=2").status_code == 200
        for path in ("metrics/visits", "metrics/visits?limit=10&format=arrow", "explain/visits/2024-03-01T00"):
            answer = client.get(f"/api/v1/{path}")
            assert answer.status_code == 413, (path, len(answer.content))
            assert "allowed" in answer.json()["error"]
    # Pages without a limit have as many rows as there may be, where that is less than usual.
    with serving(tables.project, rows=10) as client:
        assert len(client.get("/api/v1/metrics/visits").json()["rows"]) == 10


def length_of_body() -> FastAPI:
    """An application that reads bodies, behind the limits."""
    app = FastAPI()
    install_problems(app)

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    app.add_middleware(Limited)
    app.add_middleware(Guard, tokens=Tokens({}))
    return app


def test_a_request_s_body_is_bounded_also_where_it_does_not_say_how_long_it_is() -> None:
    async def pieces(count: int) -> Any:
        for _ in range(count):
            yield b"x" * 1024

    async def asked() -> list[int]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(length_of_body()), base_url="http://localhost"
        ) as client:
            bodies: list[Any] = [
                b"x" * BODY_BYTES,
                b"x" * (BODY_BYTES + 1),
                pieces(BODY_BYTES // 1024),
                pieces(BODY_BYTES // 1024 + 1),
            ]
            answers = [await client.post("/length", content=body) for body in bodies]
            assert all("allowed" in answer.json()["error"] for answer in answers if answer.is_error)
            return [answer.status_code for answer in answers]

    assert asyncio.run(asked()) == [200, 413, 200, 413]


@pytest.mark.parametrize("head", [b"Content-Length: 30000000", b"Transfer-Encoding: chunked"])
def test_a_client_that_sends_too_much_gets_an_answer_and_no_reset(tables: BareTables, head: bytes) -> None:
    body = b"x" * 30_000_000
    if b"chunked" in head:
        body = b"1C9C380\r\n" + body + b"\r\n0\r\n\r\n"
    with serving(tables.project) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(address, timeout=600) as one:
            one.sendall(b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head)
            one.sendall(b"\r\n\r\n" + body)
            answer = b"".join(iter(lambda: one.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413"), answer[:300]


def test_a_body_that_does_not_come_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_BODY_SECONDS", 0.01)

    async def half() -> Any:
        yield b"x"
        await asyncio.Event().wait()

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(length_of_body()), base_url="http://localhost"
        ) as client:
            return await client.post("/length", content=half())

    answer = asyncio.run(asked())
    assert (answer.status_code, answer.json()) == (408, {"error": "the request's body did not come within 0.01 s"})


def test_a_connection_without_a_request_is_closed(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "_HEAD_SECONDS", 0.01)
    with serving(tables.project) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        for sent in (b"", b"GET /api/v1/late HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"):
            with socket.create_connection(address, timeout=600) as one:
                one.sendall(sent)
                assert one.recv(1) == b"", sent
        monkeypatch.setattr(heads, "_HEAD_SECONDS", 60)
        assert client.get("/health").status_code == 200


def test_a_query_is_stopped_at_its_time_limit(tables: BareTables, computing: Callable[..., None]) -> None:
    computing(for_ever)
    with serving(tables.project, timeout=timedelta(seconds=1), concurrent=1) as client:
        answer = client.get("/api/v1/late")
        assert (
            answer.status_code,
            answer.json()["error"].startswith("the query was stopped after 1 s (serve.timeout)"),
        ) == (504, True)
        assert client.get("/health").status_code == 200
        # Its only thread is free again.
        computing(lambda _: [])
        assert client.get("/api/v1/late").status_code == 200


def test_a_query_is_stopped_when_nobody_waits_for_it_any_more(
    tables: BareTables, computing: Callable[..., None]
) -> None:
    begun = threading.Event()
    computing(telling(begun))
    with serving(tables.project, timeout=LONG, concurrent=1) as client:
        url = client.base_url
        with socket.create_connection((url.host, url.port or 0)) as gone:
            gone.sendall(b"GET /api/v1/late HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert begun.wait(600)
        computing(lambda _: [])
        assert client.get("/api/v1/late").status_code == 200  # in its turn, which the other one has given up


def test_a_server_stops_in_the_midst_of_a_query(tables: BareTables, computing: Callable[..., None]) -> None:
    begun = threading.Event()
    computing(telling(begun))
    with Server(serve_settings(tables.project, timeout=LONG), environ={}) as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(httpx.get, f"{server.url}/api/v1/late", timeout=600)
        assert begun.wait(600)
        server.stop()
        assert waiting.exception() or waiting.result().status_code in (503, 504)


def test_a_query_that_waits_for_its_turn_is_refused_when_the_server_stops(tables: BareTables) -> None:
    snapshots = Snapshots(serve_settings(tables.project, timeout=LONG, concurrent=1))
    answering = Answering(snapshots.project, snapshots)
    begun = threading.Event()

    async def connected() -> Message:
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    async def ask() -> tuple[object, object]:
        request = Request({"type": "http", "hourline.client": Client("one", "reader")}, connected)
        running = asyncio.create_task(answering.compute(request, telling(begun)))
        assert await asyncio.to_thread(begun.wait, 60)
        waiting = asyncio.create_task(answering.compute(request, lambda connection: None))
        await asyncio.sleep(0)
        answering.close()
        return await asyncio.gather(running, waiting, return_exceptions=True)

    stopped, refused = asyncio.run(ask())
    snapshots.close()
    assert isinstance(stopped, TimedOutError)
    assert isinstance(refused, HTTPException) and refused.status_code == 503, refused


def test_a_greedy_client_leaves_the_others_their_turns(tables: BareTables, computing: Callable[..., None]) -> None:
    release, running, most = threading.Event(), [0], [0]

    def hold(connection: Connection) -> list[Any]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        assert release.wait(600)
        running[0] -= 1
        return []

    computing(hold)
    with serving(tables.project, ENVIRON, timeout=LONG) as client, ThreadPoolExecutor(OPEN_PER_CLIENT + 8) as pool:
        greedy = [
            pool.submit(httpx.get, f"{client.base_url}/api/v1/late", headers=AS_ONE, timeout=600)
            for _ in range(OPEN_PER_CLIENT + 8)
        ]
        refused = as_answered(greedy, 8)
        assert {answer.status_code for answer in refused} == {429}
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        # All its others wait, and still:
        for _ in range(3):
            assert client.get("/api/v1/metrics/visits", headers=AS_OTHER).status_code == 200
        assert client.get("/api/v1/metrics/visits", headers=AS_ONE).status_code == 429
        release.set()
        assert sorted(one.result().status_code for one in greedy) == [200] * OPEN_PER_CLIENT + [429] * 8
    assert most == [1]


def as_answered(futures: list[Any], count: int) -> list[httpx.Response]:
    """The first of them that are answered."""
    found = as_completed(futures)
    return [next(found).result() for _ in range(count)]


def test_who_waits_too_long_for_a_turn_is_told_to_come_again(
    tables: BareTables, computing: Callable[..., None]
) -> None:
    release, begun = threading.Event(), threading.Event()

    def hold(_: Connection) -> list[Any]:
        begun.set()
        assert release.wait(600)
        return []

    computing(hold)
    with serving(tables.project, timeout=timedelta(seconds=1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.get, f"{client.base_url}/api/v1/late", timeout=600)
        assert begun.wait(600)
        answer = client.get("/api/v1/late")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert "waited its turn for 1 s" in answer.json()["error"]
        release.set()
        assert first.result().status_code == 200  # what cannot be stopped, and has come to its end, is given


async def stays() -> bool:
    return False


def test_clients_take_turns_whoever_has_asked_more_often() -> None:
    async def order() -> list[str]:
        turns, done = Turns(in_all=1, per_client=1), list[str]()

        async def ask(client: str) -> None:
            async with turns.turn(client, 60, stays):
                done.append(client)
                await asyncio.sleep(0)

        await asyncio.gather(*(ask(client) for client in "aaaabbc"))
        return done

    assert asyncio.run(order()) == list("abcabaa")


def test_turns_that_are_given_up_are_free_again() -> None:
    async def given_up() -> None:
        turns = Turns(in_all=1, per_client=1)
        async with turns.turn("a", 60, stays):
            with pytest.raises(TooManyError):
                async with turns.turn("b", 0.01, stays):
                    pytest.fail("its turn has not come")
            waiting = asyncio.create_task(turns.turn("c", 60, stays).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gone = asyncio.Event()
            leaving = asyncio.create_task(turns.turn("d", 5, gone.wait).__aenter__())
            gone.set()
            (left,) = await asyncio.gather(leaving, return_exceptions=True)
            assert isinstance(left, TimedOutError)
        for client in "abcd":
            async with turns.turn(client, 1, stays):
                pass
        assert not turns._waiting and not turns._running and not turns._began

    asyncio.run(given_up())


def test_slow_clients_hold_up_nobody_and_are_given_up(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALLED_SECONDS", 0.0)  # whoever takes nothing at all for a moment
    given_up = threading.Semaphore(0)
    monkeypatch.setattr(log, "warning", lambda *_: given_up.release())
    size = 12_000_000
    monkeypatch.setattr("serving_layer.http.hour_routes._json", lambda _: Body(b"x" * size, "application/json"))
    with serving(tables.project, ENVIRON, timeout=LONG) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        head = f"GET /api/v1/late HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ONE}\r\n\r\n".encode()
        slow = [socket.socket() for _ in range(6)]
        try:
            for one in slow:
                one.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536
                )  # by itself, the system may take the whole answer for them
                one.connect(address)
            for number, one in enumerate(slow):
                one.sendall(head if number % 2 else head[:20])  # some are slow to ask, some to read
            for header in (AS_ONE, AS_OTHER):  # even itself, since a turn is for computing alone
                assert client.get("/api/v1/metrics/visits", headers=header).status_code == 200
            for _ in slow[1::2]:
                assert given_up.acquire(timeout=600)
            slow[1].settimeout(60)
            got = 0
            while piece := slow[1].recv(1_000_000):  # what was on its way
                got += len(piece)
            assert 0 < got < size
        except ConnectionResetError:
            pass  # given up as well
        finally:
            for one in slow:
                one.close()
