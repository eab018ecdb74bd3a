"""Limits of Arrow Flight SQL: those of HTTP. A client that is gone, stalls or sends garbage costs the others nothing."""

import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import adbc_driver_flightsql.dbapi as adbc
import grpc
import pytest
from google.protobuf.any_pb2 import Any as Packed

from serving_layer.flight import endpoint
from serving_layer.flight.calls import Call
from serving_layer.flight.messages import flight, pack, sql
from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables
from tests.support.flight_clients import ADMIN, ENDLESS, Bare, ask, connected, described, flight_server, read

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")

MANY_BYTES = "SELECT repeat('x', 10000) || range AS text FROM range(1400)"
LONGEST = 30.0
"""Seconds for what takes a moment."""
METHODS = ("GetFlightInfo", "GetSchema", "DoGet", "DoAction")


@pytest.fixture(scope="module")
def patient(tables: BareTables) -> Iterator[Server]:
    """A server that computes one query at a time, for as long as it takes."""
    with flight_server(tables.project, rows=1000, timeout="10m", concurrent=1) as server:
        yield server


def until(holds: Callable[[], bool]) -> None:
    """Returns when it holds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() < begun + LONGEST
        threading.Event().wait(0.05)


def is_answered(server: Server) -> bool:
    """Whether a query gets its turn, long before another one is stopped for its time."""
    with Bare(server) as bare, suppress(grpc.RpcError):
        return bool(bare.ticket_of("SELECT 1", LONGEST))
    return False


def client_of(server: Server, query: str) -> "subprocess.Popen[bytes]":
    """A client in a process of its own, which sends a query and takes the first rows of the answer."""
    program = (
        "import adbc_driver_flightsql.dbapi as adbc, time\n"
        f"options = {{'adbc.flight.sql.authorization_header': 'Bearer {ADMIN}'}}\n"
        f"with adbc.connect({server.flight_url!r}, db_kwargs=options, autocommit=True) as connection:\n"
        f"    cursor = connection.cursor()\n    cursor.execute({query!r})\n"
        "    cursor.fetch_record_batch().read_next_batch()\n    print('taken', flush=True)\n    time.sleep(600)\n"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)


def opened(server: Server) -> int:
    """The number of open calls."""
    assert server.flight is not None
    return server.flight.open_calls


def test_what_is_too_large_is_refused(patient: Server) -> None:
    with connected(patient) as connection:
        for query, sentence in (
            ("FROM range(1001)", "more than 1,000 rows"),
            ("SELECT list_resize([1], 2000000000)", "256 MB of memory"),
            (f"SELECT '{'x' * 60_000}'", "60,009 characters; allowed are 50,000"),
            (f"SELECT '{'x' * 100_000}'", "100,009 bytes; allowed are 65,536"),
            (f"SELECT '{'x' * 2_000_000}'", "larger than max"),
        ):
            with pytest.raises(adbc.Error) as error:
                read(connection, query)
            assert sentence in str(error.value) and "Traceback" not in str(error.value)
        assert read(connection, "FROM range(1000)").num_rows == 1000
        # What it carries from one call to the next is longer than the query.
        escaped = '"' * 40_000
        assert read(connection, f"SELECT '{escaped}' AS text").to_pylist() == [{"text": escaped}]


def test_a_long_sentence_is_cut(server: Server) -> None:
    with Bare(server) as bare, pytest.raises(grpc.RpcError) as error:
        bare.ticket_of(f"SELECT CAST('{'x' * 40_000}' AS INTEGER)")
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert 900 < len(error.value.details()) < 1100


def test_a_query_over_its_time_is_stopped(tables: BareTables) -> None:
    with flight_server(tables.project, timeout="2s", concurrent=1) as server:
        with Bare(server) as bare, pytest.raises(grpc.RpcError) as error:
            bare.ticket_of(ENDLESS)
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert "the query was stopped after 2 s (serve.timeout)" in error.value.details()
        assert ask(server, "SELECT 1 AS a").to_pylist() == [{"a": 1}]


def test_a_query_is_stopped_when_its_client_is_killed(patient: Server) -> None:
    with client_of(patient, ENDLESS) as client:
        until(lambda: opened(patient) == 1)
        client.kill()
    # Its turn, and the process, are free again.
    assert is_answered(patient)
    until(lambda: opened(patient) == 0)


def test_calls_that_are_cancelled_are_open_until_they_have_ended(
    patient: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a client that cancels could have any number of them wait or run."""
    looked = threading.Event()

    async def stay(self: Call) -> bool:
        return self.gone and looked.is_set()

    monkeypatch.setattr(Call, "is_disconnected", stay)
    monkeypatch.setattr(endpoint, "OPEN_PER_CLIENT", 3)
    with Bare(patient) as bare:
        for before in range(3):
            with pytest.raises(grpc.RpcError) as error:
                bare.ticket_of(ENDLESS, seconds=1)
            assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert opened(patient) == before + 1
        with pytest.raises(grpc.RpcError, match="3 calls of yours are open"):
            bare.ticket_of("SELECT 1")
        looked.set()
        until(lambda: opened(patient) == 0)  # The first one is stopped, and the others leave the queue.
        assert is_answered(patient)


def test_a_client_that_is_killed_in_the_middle_of_an_answer_is_no_fault(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        with client_of(server, MANY_BYTES) as client:
            assert client.stdout is not None and client.stdout.readline() == b"taken\n"
            assert opened(server) == 1
            client.kill()
        until(lambda: opened(server) == 0)
    assert caplog.messages == []


def test_an_answer_that_cannot_be_sent_does_not_end_as_if_it_were_whole(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise grpc.aio.InternalError  # What a write of gRPC raises when the connection is gone.

    with Bare(server) as bare, caplog.at_level(logging.WARNING):
        ticket = bare.ticket_of("FROM totals")
        monkeypatch.setattr(endpoint, "_write", fail)
        with pytest.raises(grpc.RpcError) as error:
            list(bare.stream("DoGet", ticket))
    assert (error.value.code(), error.value.details()) == (
        grpc.StatusCode.UNAVAILABLE,
        "the answer was cut off; ask again",
    )
    assert caplog.messages == []


def test_a_client_has_its_time_for_every_64_kilobytes(server: Server) -> None:
    with Bare(server) as bare:
        sizes = [len(message) for message in bare.stream("DoGet", bare.ticket_of(MANY_BYTES))]
    assert sum(sizes) > 14_000_000 and max(sizes) < 80_000


def test_a_client_that_takes_nothing_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with Bare(server) as bare:
        ticket = bare.ticket_of(MANY_BYTES)
        monkeypatch.setattr(endpoint, "STALLED_SECONDS", 0.2)
        answer = bare.stream("DoGet", ticket)
        until(lambda: opened(server) == 1)
        until(lambda: opened(server) == 0)
        with pytest.raises(grpc.RpcError) as error:
            list(answer)
        assert "the client took nothing of its answer for 0.2 s" in error.value.details()


def test_calls_of_a_client_wait_their_turn_and_too_many_are_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "OPEN_PER_CLIENT", 4)

    def one(number: int) -> str:
        with Bare(server) as bare:
            try:
                bare.ticket_of(f"SELECT {number}, sum(n) FROM totals")
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return "answered"

    with ThreadPoolExecutor(50) as threads:
        told = list(threads.map(one, range(50)))
    busy = {"UNAVAILABLE: 4 calls of yours are open, 4 in all; allowed are 4 and 256: try again when some are answered"}
    assert told.count("answered") >= 4 and set(told) == {"answered"} | busy
    assert opened(server) == 0


def test_a_call_without_its_message_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_MESSAGE_SECONDS", 0.2)
    with Bare(server) as bare:
        for method in METHODS:
            with pytest.raises(grpc.RpcError) as error:
                list(bare.silent(method, LONGEST))
            assert error.value.details() == "the message of the call did not come within 0.2 s"
            with pytest.raises(grpc.RpcError) as error:
                list(bare.stream(method))
            assert error.value.details() == "the call has no message"
    assert opened(server) == 0


def test_streams_without_a_message_are_limited(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_CALLS_IN_ALL", 4)
    with flight_server(tables.project) as server, Bare(server) as bare:
        silent = [bare.silent("DoGet") for _ in range(4)]
        until(lambda: opened(server) == 4)
        with pytest.raises(grpc.RpcError) as error:
            bare.ticket_of("SELECT 1")
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        for one in silent:
            one.cancel()
        until(lambda: opened(server) == 0)
        assert is_answered(server)


def test_the_server_stops_within_seconds_whatever_runs(tables: BareTables) -> None:
    with flight_server(tables.project, timeout="10m") as server, Bare(server) as bare, Bare(server) as other:
        stalled = bare.stream("DoGet", bare.ticket_of(MANY_BYTES))
        until(lambda: opened(server) == 1)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(other.ticket_of, ENDLESS)
            until(lambda: opened(server) == 2)
            begun = time.monotonic()
            server.stop()
            took = time.monotonic() - begun
            assert isinstance(running.exception(), grpc.RpcError)
        with pytest.raises(grpc.RpcError):
            list(stalled)
    assert took < 5  # About a second on a machine that does nothing else.


def test_garbage_is_refused_in_one_sentence(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    some = random.Random(7)  # noqa: S311
    codes = set()
    with Bare(server) as bare, caplog.at_level(logging.WARNING):
        for number in range(120):
            garbage = some.randbytes(some.randrange(60))
            prepared = pack(sql.CommandPreparedStatementQuery(prepared_statement_handle=garbage))
            forged = pack(sql.TicketStatementQuery(statement_handle=b'{"sql": ["SELECT 1"]}'))
            nothing = pack(sql.CommandStatementQuery()).replace(b"StatementQuery", b"StatementQuerx")
            command = (
                garbage,
                prepared,
                forged,
                nothing,
                Packed(type_url="type.googleapis.com/arrow.flight.protocol.sql.__class__").SerializeToString(),
                pack(sql.CommandStatementQuery(query="SELECT 1", transaction_id=b"1")),
            )[number % 6]
            for content in (
                command,
                described(command),
                flight.Ticket(ticket=command).SerializeToString(),
                flight.Action(type="CreatePreparedStatement", body=command).SerializeToString(),
                flight.Action(type="SetSessionOptions", body=b"\x0a\x02\x0a\x09").SerializeToString(),
                flight.Action(type="BeginTransaction", body=command).SerializeToString(),
            ):
                for method in METHODS:
                    try:
                        list(bare.stream(method, content))
                    except grpc.RpcError as error:
                        codes.add(error.code().name)
                        assert "Traceback" not in error.details() and "fault of Hourline's" not in error.details()
    assert codes == {"INVALID_ARGUMENT", "UNIMPLEMENTED"}
    assert caplog.messages == []
    assert ask(server, "SELECT 1 AS a").to_pylist() == [{"a": 1}]
