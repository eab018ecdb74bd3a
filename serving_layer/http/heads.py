"""Closes connections that send no complete request head in time, and answers the method HEAD.

uvicorn would keep such a connection, and its file descriptor, for ever.
"""

import asyncio

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD_SECONDS = 10.0


class H11WithHeadTimeout(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it. A request must have its whole head within ``_HEAD_SECONDS``."""

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Wait for what is still lacking of a head, from when its first byte came."""
        super().data_received(data)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        self._giving_up = None
        # Between two requests it is uvicorn that waits, for a shorter time.
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self.transport.close()


class HeadAsGet:
    """ASGI middleware: HEAD gets what GET would, without its body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                # At once, since a stream has no end.
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receive, head)
