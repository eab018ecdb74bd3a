"""A server with Arrow Flight SQL, and its clients: ADBC's driver, and bare messages."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import grpc
import pyarrow as pa

from hourline_core.model import Project, ServeSettings, Settings
from serving_layer.flight.messages import flight, pack, sql
from serving_layer.http.server import Server

READER, ADMIN = "reader-reader-reader", "admin-admin-admin-admin"
TOKENS = {"HOURLINE_READER_TOKEN": READER, "HOURLINE_ADMIN_TOKEN": ADMIN}
TOKEN_OPTION = "adbc.flight.sql.authorization_header"  # noqa: S105
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
SERVICE = "/arrow.flight.protocol.FlightService"
ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000000) b"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def flight_server(project: Project, environ: dict[str, str] | None = None, **serve: Any) -> Server:
    """A server of free SQL, to be entered."""
    settings = ServeSettings.model_validate({"sql": True, "flight_port": free_port(), **serve})
    return Server(replace(project, settings=Settings(serve=settings)), environ=TOKENS if environ is None else environ)


@contextmanager
def connected(server: Server, token: str | None = ADMIN, **options: str) -> Iterator[adbc.Connection]:
    """A connection of ADBC's driver."""
    given = {TOKEN_OPTION: f"Bearer {token}"} if token else {}
    with adbc.connect(str(server.flight_url), db_kwargs={**given, **options}, autocommit=True) as connection:
        yield connection


def ask(server: Server, query: str, token: str | None = ADMIN, **options: str) -> pa.Table:
    """The rows that ADBC's driver reads."""
    with connected(server, token, **options) as connection:
        return read(connection, query)


def read(connection: adbc.Connection, query: str) -> pa.Table:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetch_arrow_table()


class Bare:
    """Sends bytes, as a client may that nobody has written well."""

    def __init__(self, server: Server | str, token: str = ADMIN) -> None:
        address = server if isinstance(server, str) else str(server.flight_url)
        self._channel = grpc.insecure_channel(address.removeprefix("grpc://"))
        self._metadata = [("authorization", f"Bearer {token}")]

    def __enter__(self) -> "Bare":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def one(self, method: str, content: bytes, seconds: float = 600) -> bytes:
        """The response of a call that has one."""
        call = self._channel.unary_unary(f"{SERVICE}/{method}")
        answer: bytes = call(content, metadata=self._metadata, timeout=seconds)
        return answer

    def stream(self, method: str, *content: bytes) -> Any:
        """The responses of a call, as they come. Without ``content``, it ends before it has brought a message."""
        call = self._channel.stream_stream(f"{SERVICE}/{method}")
        return call(iter(content), metadata=self._metadata, timeout=600)

    def silent(self, method: str, seconds: float = 600) -> Any:
        """A call that sends no message, until it is cancelled."""
        call = self._channel.stream_stream(f"{SERVICE}/{method}")
        return call(iter(threading.Event().wait, None), metadata=self._metadata, timeout=seconds)

    def ticket_of(self, query: str, seconds: float = 600) -> bytes:
        """The ticket to fetch an answer."""
        command = pack(sql.CommandStatementQuery(query=query))
        info = flight.FlightInfo.FromString(self.one("GetFlightInfo", described(command), seconds))
        ticket: bytes = info.endpoint[0].ticket.SerializeToString()
        return ticket


def described(command: bytes) -> bytes:
    """The descriptor of a command."""
    content: bytes = flight.FlightDescriptor(type=2, cmd=command).SerializeToString()
    return content
