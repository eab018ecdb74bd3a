"""Who may ask by Arrow Flight SQL, and what: the tokens, TLS and the read-only guard of HTTP."""

import re
import socket
import sys
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import grpc
import pyarrow as pa
import pyarrow.flight
import pytest

from hourline_core.errors import DeclarationError, SetupError
from hourline_core.model import load_project
from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables
from tests.support.escapes import REFUSED
from tests.support.flight_clients import (
    ADMIN,
    READER,
    TOKEN_OPTION,
    Bare,
    ask,
    connected,
    flight_server,
    free_port,
    read,
)
from tests.support.project_files import write_project
from tests.support.visits_tables import serve_settings
from tests.surface.http.test_access import self_signed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")

METHODS = ("Handshake", "GetFlightInfo", "GetSchema", "PollFlightInfo", "DoGet", "DoPut", "DoExchange", "DoAction",
           "ListActions", "ListFlights")  # fmt: skip
NO_TOKEN = (
    "the request has no token; send one as `Authorization: Bearer TOKEN`, or as the password of Basic authentication"  # noqa: S105
)
WRONG = NO_TOKEN.replace("has no token", "has a token that is not accepted")
ADMINS_OWN = "that needs a token of an admin; yours is a reader's"
LONGEST = 20.0
SECRET = "the secret of the canary"  # noqa: S105


def refused(server: Server, method: str, token: str) -> tuple[grpc.StatusCode, str]:
    with Bare(server, token) as bare, pytest.raises(grpc.RpcError) as error:
        list(bare.stream(method, b""))
    return error.value.code(), error.value.details()


@pytest.mark.parametrize("method", METHODS)
def test_no_call_is_answered_without_the_token_of_an_admin(server: Server, method: str) -> None:
    assert refused(server, method, ADMIN + "x") == (grpc.StatusCode.UNAUTHENTICATED, WRONG)
    assert refused(server, method, READER) == (grpc.StatusCode.PERMISSION_DENIED, ADMINS_OWN)
    channel = grpc.insecure_channel(str(server.flight_url).removeprefix("grpc://"))
    with channel, pytest.raises(grpc.RpcError) as error:
        list(channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")(iter([b""])))
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, NO_TOKEN)


@pytest.mark.parametrize("method", METHODS)
def test_a_token_is_looked_at_before_the_message(server: Server, method: str) -> None:
    with Bare(server, "wrong") as bare, pytest.raises(grpc.RpcError) as error:
        list(bare.silent(method, LONGEST))
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, WRONG)


def test_a_driver_is_told_in_one_sentence_that_it_has_no_token(server: Server) -> None:
    with pytest.raises(adbc.ProgrammingError) as error:
        ask(server, "SELECT 1", token=None)
    assert f"UNAUTHENTICATED: [FlightSQL] {NO_TOKEN} (" in str(error.value)
    assert "Traceback" not in str(error.value)


def test_the_token_may_be_a_password(server: Server) -> None:
    for name in ("any", "anyb", "anybo"):  # Of each length that Base64 pads, which the driver does not.
        with connected(server, token=None, username=name, password=ADMIN) as connection:
            assert read(connection, "SELECT 1 AS a").to_pylist() == [{"a": 1}]
    with pytest.raises(adbc.Error, match="has a token that is not accepted"):
        ask(server, "SELECT 1", token=None, username=ADMIN, password="wrong")  # noqa: S106
    with pa.flight.connect(str(server.flight_url)) as client:
        assert client.authenticate_basic_token("anybody", ADMIN) == (b"authorization", f"Bearer {ADMIN}".encode())
        with pytest.raises(pa.flight.FlightUnauthenticatedError, match="has a token that is not accepted"):
            client.authenticate_basic_token("anybody", "wrong")


def test_without_tokens_this_machine_needs_none(tables: BareTables) -> None:
    with flight_server(tables.project, {}) as server:
        assert ask(server, "SELECT 1 AS a", token=None).to_pylist() == [{"a": 1}]
        any_password = {"username": "anybody", "password": "any"}
        assert ask(server, "SELECT 1 AS a", token=None, **any_password).to_pylist() == [{"a": 1}]
        sentence = "the password has characters that a header cannot carry; allowed are those of ASCII"
        with pytest.raises(adbc.Error, match=sentence):
            ask(server, "SELECT 1", token=None, username="anybody", password="pässword")  # noqa: S106


def test_it_needs_what_http_needs_beyond_this_machine(tables: BareTables) -> None:
    with pytest.raises(SetupError, match=r"for that the server needs tokens .* and TLS"):
        flight_server(tables.project, {}, host="0.0.0.0")  # noqa: S104


def test_tls_is_spoken_with_the_certificate_of_http(tables: BareTables, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with flight_server(tables.project, certificate=certificate, key=key) as server:
        assert str(server.flight_url).startswith("grpc+tls://127.0.0.1:")
        trusted = {"adbc.flight.sql.client_option.tls_root_certs": certificate.read_text()}
        assert ask(server, "SELECT 1 AS a", **trusted).to_pylist() == [{"a": 1}]
        with pytest.raises(adbc.Error, match="certificate"):
            ask(server, "SELECT 1")
        plain = str(server.flight_url).replace("grpc+tls", "grpc")
        options = {TOKEN_OPTION: f"Bearer {ADMIN}"}
        with pytest.raises(adbc.Error), adbc.connect(plain, db_kwargs=options, autocommit=True) as connection:
            read(connection, "SELECT 1")


def test_a_port_that_is_taken_is_told(tables: BareTables) -> None:
    port = free_port()
    taken = (
        f"127.0.0.1 port {port} cannot be listened on: .*; stop what uses it, or set serve.host and serve.flight_port"
    )
    with socket.create_server(("127.0.0.1", port)), pytest.raises(SetupError, match=taken):
        flight_server(tables.project, flight_port=port)


def test_it_is_off_by_default_and_loads_nothing(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serving_layer.flight.endpoint", None)
    with Server(serve_settings(tables.project), environ={}) as server:
        assert server.running and server.flight_url is None
    with pytest.raises(SetupError, match=r"serve.flight_port is set, but .* `pip install 'hourline\[flight\]'`"):
        flight_server(tables.project)


def test_it_is_refused_without_free_sql(tmp_path: Path) -> None:
    source = "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n"
    files = {"hourline.yaml": "name: shop\nserve:\n  flight_port: 31337\n", "sources/clicks.yaml": source}
    with pytest.raises(DeclarationError) as error:
        load_project(write_project(tmp_path, files))
    assert "serve.flight_port: Arrow Flight SQL is free SQL, which is off; add `sql: true`" in str(error.value)


def test_what_free_sql_refuses_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    places = {"file": str(tmp_path / "secret"), "folder": str(tmp_path), "port": str(free_port())}
    wrong = {}
    with Bare(server) as bare:  # The driver changes some of these.
        for escape, part in REFUSED.items():
            query = re.sub(r"\{(file|folder|port)\}", lambda found: places[found[1]], escape)
            try:
                told = str(list(bare.stream("DoGet", bare.ticket_of(query))))
            except UnicodeEncodeError:
                continue  # It cannot be sent.
            except grpc.RpcError as error:
                told = error.details()
                if re.search(part, told, re.IGNORECASE) and SECRET not in told and "\n" not in told:
                    continue
            wrong[query] = told
    assert wrong == {}
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


def test_writing_is_refused_in_one_sentence(server: Server) -> None:
    only_reads = "the server only reads: .* is not answered; send one SELECT over the views"
    with connected(server) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.NotSupportedError, match=only_reads):
            cursor.adbc_ingest("stolen", pa.table({"a": [1]}), mode="create")
        with pytest.raises(adbc.NotSupportedError, match=only_reads):
            cursor.executemany("SELECT 1", [(1,)])
        with pytest.raises(adbc.ProgrammingError, match="got DELETE, want exactly one SELECT"):
            cursor.execute("DELETE FROM totals")
        with pytest.raises(adbc.ProgrammingError, match="free SQL may not contain a parameter"):
            cursor.execute("SELECT ?", (1,))
        assert read(connection, "SELECT 1 AS a").to_pylist() == [{"a": 1}]
