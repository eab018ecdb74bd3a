"""A server: the application behind a socket, with TLS if the settings say so. It stops within a second."""

import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import uvicorn
from starlette.routing import BaseRoute

from hourline_core.errors import SetupError
from hourline_core.model import Project, ServeSettings
from hourline_core.model.hours import Clock, wall_clock
from serving_layer.http.access import Tokens, is_loopback, warn_of_readable_tokens
from serving_layer.http.app import create_app
from serving_layer.http.heads import H11WithHeadTimeout
from serving_layer.http.tls import explaining_tls, tls_files

if TYPE_CHECKING:
    from serving_layer.flight.endpoint import Endpoint

_STOP_SECONDS = 1
_START_SECONDS = 60
_SWITCH_SECONDS = 0.0005
"""The time for which one thread may keep Python from the others. A small answer needs Python many times, and would
wait 5 ms each time beside a large one.
"""


class Server:
    """Serve ``project`` within a `with` block, from a thread. Raises SetupError when it may not or cannot listen,
    TableError.
    """

    def __init__(self, project: Project, clock: Clock = wall_clock, environ: Mapping[str, str] = os.environ) -> None:
        settings = project.settings.serve
        refuse_unguarded(project, environ)
        warn_of_readable_tokens(project)
        self._socket = _listening(settings.host, settings.port or 0)
        files = tls_files(project)
        self._project = project
        try:
            with explaining_tls(files):
                for file in files or ():  # Before anything is started. An error of TLS would not name the file.
                    file.open("rb").close()
            self._app = create_app(project, clock, environ, _flight_address(settings))
            config = uvicorn.Config(
                self._app,
                http=H11WithHeadTimeout,  # By h11, which limits the size of a request's head.
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # A forwarded address is made up by the client.
                timeout_graceful_shutdown=_STOP_SECONDS,
                ssl_certfile=files[0] if files else None,
                ssl_keyfile=files[1] if files else None,
            )
            with explaining_tls(files):
                config.load()
        except BaseException:
            self._socket.close()
            raise
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    @property
    def url(self) -> str:
        """The address to open."""
        scheme = "https" if self._project.settings.serve.certificate else "http"
        return f"{scheme}://{_with_port(self._project.settings.serve.host, self._socket.getsockname()[1])}"

    @property
    def flight_url(self) -> str | None:
        """The address for clients of Arrow Flight SQL. None: it is not served."""
        settings = self._project.settings.serve
        if settings.flight_port is None:
            return None
        return f"{'grpc+tls' if settings.certificate else 'grpc'}://{_with_port(settings.host, settings.flight_port)}"

    @property
    def flight(self) -> "Endpoint | None":
        """The endpoint of Arrow Flight SQL."""
        endpoint: Endpoint | None = self._app.state.flight
        return endpoint

    @property
    def routes(self) -> list[BaseRoute]:
        """The application."""
        return self._app.routes

    @property
    def running(self) -> bool:
        """Whether it runs. It may have ended by itself."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()
        for _ in range(_START_SECONDS * 100):
            if self._server.started or not self._thread.is_alive():
                break
            self._thread.join(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._socket.close()

    def stop(self) -> None:
        """End the streams, stop what is being computed, and wait until nothing runs any more. It takes about a
        second at most.
        """
        with suppress(RuntimeError):  # The loop is closed: it has ended already.
            # First the streams, for whose end the server would wait.
            self._app.state.loop.call_soon_threadsafe(self._app.state.answering.close)
        self._server.should_exit = True
        self._thread.join()


def refuse_unguarded(project: Project, environ: Mapping[str, str]) -> None:
    """Raise SetupError if others could reach the server without a token, or read what is sent."""
    settings = project.settings.serve
    if is_loopback(settings.host):
        return
    lacking = []
    if not Tokens.of(project, environ):
        lacking.append("tokens (serve.tokens in hourline.yaml, or HOURLINE_READER_TOKEN in the environment)")
    if settings.certificate is None:
        lacking.append("TLS (serve.certificate and serve.key)")
    if lacking:
        raise SetupError(
            f"host {settings.host} can be reached from other machines; for that the server needs "
            f"{' and '.join(lacking)}"
        )


def _flight_address(settings: ServeSettings) -> str | None:
    """The address for gRPC to listen on. It listens later, so this looks whether the port is free."""
    if settings.flight_port is None:
        return None
    with _listening(settings.host, settings.flight_port, "serve.flight_port") as free:
        return _with_port(free.getsockname()[0], settings.flight_port)


def _with_port(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _listening(host: str, port: int, setting: str = "serve.port") -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # UnicodeError: the name cannot be that of a host.
        reason = error.strerror if isinstance(error, OSError) else error
        raise SetupError(
            f"{host} port {port or '(a free one)'} cannot be listened on: {reason}; "
            f"stop what uses it, or set serve.host and {setting} to others"
        ) from None
    return listener
