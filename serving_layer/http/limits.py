"""Limits requests, so that a slow or greedy client does not take the others' share."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving_layer.http.access import OPEN_PATHS, Client
from serving_layer.http.error_responses import RETRY_SECONDS, TimedOutError, TooManyError, log, problem

BODY_BYTES = 65_536
"""The maximum number of bytes in the body of a request."""

OPEN_PER_CLIENT = 32
OPEN_IN_ALL = 256
"""The maximum number of open requests, from their arrival until the last byte of the answer was sent."""

STREAM_PATH = "/api/v1/changes"

_LOOK_SECONDS = 0.5
_PIECE = 65_536
STALLED_SECONDS = 30.0
"""The maximum time for which a client may take nothing of its answer."""
_BODY_SECONDS = 10.0
"""The maximum time for a body, which is small, to arrive."""


class Turns:
    """Turns to compute: ``in_all`` at once, and ``per_client`` of one client. Clients take turns, however many
    requests each has. It is used from one event loop, so it needs no lock.
    """

    def __init__(self, in_all: int, per_client: int) -> None:
        self._in_all = in_all
        self._per_client = per_client
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._began: dict[str, int] = {}
        """When the last turn of each present client began, counted in turns."""
        self._turns = 0

    @asynccontextmanager
    async def turn(self, client: str, seconds: float, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """A turn to compute, for the length of the block. Raises TooManyError after ``seconds`` of waiting, and
        TimedOutError when ``is_gone`` says that nobody waits any more.
        """
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(mine)
        self._call()
        try:
            async with asyncio.timeout(seconds):
                while not mine.done():
                    await asyncio.wait({mine}, timeout=_LOOK_SECONDS)
                    if await is_gone():
                        raise TimedOutError("the query has left the queue: nobody waits for its answer")
        except BaseException as error:
            if mine.done():
                self._end(client)
            else:
                self._give_up(client, mine)
            if isinstance(error, TimeoutError):
                raise TooManyError(
                    f"the query has waited its turn for {seconds:g} s, behind others; try again later, or ask for less"
                ) from None
            raise
        try:
            yield
        finally:
            self._end(client)

    def _call(self) -> None:
        """The next client: of those that may have one more turn, the one whose last turn began the longest ago."""
        while self._running.total() < self._in_all:
            free = [client for client in self._waiting if self._running[client] < self._per_client]
            if not free:
                return
            client = min(free, key=lambda client: self._began.get(client, 0))
            first = self._waiting[client].popleft()
            if not self._waiting[client]:
                del self._waiting[client]
            self._turns += 1
            self._began[client] = self._turns
            self._running[client] += 1
            first.set_result(None)

    def _end(self, client: str) -> None:
        self._running[client] -= 1
        self._call()
        self._forget(client)

    def _give_up(self, client: str, mine: asyncio.Future[None]) -> None:
        if mine in self._waiting.get(client, ()):
            self._waiting[client].remove(mine)
            if not self._waiting[client]:
                del self._waiting[client]
        self._forget(client)

    def _forget(self, client: str) -> None:
        """Forget a client that has gone."""
        if not self._running[client] and client not in self._waiting:
            self._running.pop(client, None)
            self._began.pop(client, None)


class Limited:
    """ASGI middleware behind the Guard. It limits the number of open requests, their size, and the time for sending
    an answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        client: Client = scope["hourline.client"]
        # Streams stay open, and must not use up the client's requests.
        key = f"{client.name}, streams" if scope["path"] == STREAM_PATH else client.name
        if self._open[key] >= OPEN_PER_CLIENT or self._open.total() >= OPEN_IN_ALL:
            sentence = (
                f"{self._open[key]} requests of yours are open, {self._open.total()} in all; "
                f"allowed are {OPEN_PER_CLIENT} and {OPEN_IN_ALL}"
            )
            await problem(429, f"{sentence}: try again when some are answered", {"Retry-After": str(RETRY_SECONDS)})(
                scope, receive, send
            )
            return
        self._open[key] += 1
        try:
            if _declared_length(scope) > BODY_BYTES:
                await _drain(scope, receive)
                sentence = f"the request's body has {_declared_length(scope)} bytes; allowed are {BODY_BYTES}"
                await problem(413, sentence, {"Connection": "close"})(scope, receive, send)
                return
            await self.app(scope, _limit_body(scope, receive), _limit_sending(send))
        except TimeoutError:  # From _limit_sending. The server closes the connection of an unfinished answer.
            log.warning("client %s took nothing of its answer for %g s, and was given up", client.name, STALLED_SECONDS)
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def _declared_length(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0


async def _drain(scope: Scope, receive: Receive) -> None:
    """Take the rest of a body that is refused, for a while. Were the connection closed before, the system would reset
    it, and the client might not see the answer. A client that waits for 100 (Continue) has sent nothing.
    """
    if Headers(scope=scope).get("expect", "").casefold() == "100-continue":
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            while (await receive()).get("more_body"):
                pass


def _limit_body(scope: Scope, receive: Receive) -> Receive:
    """Receive a body that does not declare its length, or does not arrive."""
    got, whole = 0, False

    async def receive_within_limit() -> Message:
        nonlocal got, whole
        try:
            # After the body, only the end of the connection follows, which may take any time.
            async with asyncio.timeout(None if whole else _BODY_SECONDS):
                message = await receive()
        except TimeoutError:
            raise HTTPException(
                408, f"the request's body did not come within {_BODY_SECONDS:g} s", {"Connection": "close"}
            ) from None
        whole = whole or not message.get("more_body")
        got += len(message.get("body", b""))
        if got > BODY_BYTES:
            if not whole:
                await _drain(scope, receive)
            raise HTTPException(
                413, f"the request's body has more than {BODY_BYTES} bytes, which are allowed", {"Connection": "close"}
            )
        return message

    return receive_within_limit


def _limit_sending(send: Send) -> Send:
    """Send in pieces, so that the answer counts as open until it is taken. A client that takes nothing for half a
    minute is given up.
    """

    async def send_within_limit(message: Message) -> None:
        body = message.get("body", b"") if message["type"] == "http.response.body" else b""
        async with asyncio.timeout(None) as limit:
            for start in range(0, len(body) - _PIECE, _PIECE):
                limit.reschedule(asyncio.get_running_loop().time() + STALLED_SECONDS)
                await send({**message, "body": body[start : start + _PIECE], "more_body": True})
            limit.reschedule(asyncio.get_running_loop().time() + STALLED_SECONDS)
            last = body[max(0, -(-len(body) // _PIECE) - 1) * _PIECE :]
            ends = message["type"] == "http.response.body" and not message.get("more_body")
            await send({**message, "body": last, "more_body": True} if ends and body else message)
            if ends and body:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_within_limit
