"""The endpoint of Flight: gRPC in the event loop of the HTTP server, with its tokens and its limits on open calls."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from starlette.exceptions import HTTPException

from hourline_core.errors import UsageError
from serving_layer.flight.answers import Answers
from serving_layer.flight.calls import Call
from serving_layer.flight.errors import explain
from serving_layer.flight.messages import MalformedError, flight
from serving_layer.flight.service import ACTIONS, READ_ONLY, Service
from serving_layer.http.access import Tokens
from serving_layer.http.answering import Answering
from serving_layer.http.at_least import Waits
from serving_layer.http.error_responses import TimedOutError, TooManyError
from serving_layer.http.free_sql import FreeSql
from serving_layer.http.limits import OPEN_IN_ALL, OPEN_PER_CLIENT, STALLED_SECONDS

_T = TypeVar("_T")
_Context = Any  # grpc.aio.ServicerContext[bytes, Any]

_SERVICE = "arrow.flight.protocol.FlightService"
_STOP_SECONDS = 0.2
_MESSAGE_SECONDS = 10.0
"""The maximum time for the message of a call, which is small, to arrive."""
_CALLS_IN_ALL = 2 * OPEN_IN_ALL
"""The maximum number of calls whose token was not looked at yet, too. gRPC refuses more without a sentence of ours."""
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 1 << 20),  # More than any query that is accepted has.
    ("grpc.keepalive_time_ms", 30_000),  # A client that is gone without a word is noticed.
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 2 * OPEN_PER_CLIENT),  # Of a connection: more wait in the client.
    ("grpc.max_connection_idle_ms", 300_000),  # A client that comes again connects again by itself.
)


def endpoint_of(answering: Answering, waits: Waits, free_sql: FreeSql, tokens: Tokens) -> "Endpoint":
    """The endpoint that answers as the HTTP server does which has these."""
    return Endpoint(Service(Answers(answering, waits, free_sql)), tokens)


class Endpoint:
    """Listens on one address, from ``start`` to ``stop``. For one event loop."""

    def __init__(self, service: Service, tokens: Tokens) -> None:
        self._service = service
        self._tokens = tokens
        self._open: Counter[str] = Counter()
        self._server: grpc.aio.Server | None = None

    @property
    def open_calls(self) -> int:
        """The number of open calls, until the last message of each answer was sent."""
        return self._open.total()

    async def start(self, address: str, tls: tuple[Path, Path] | None) -> None:
        """Listen. ``tls`` are the files of the certificate and its key. Raises OSError, RuntimeError."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_CALLS_IN_ALL)
        answered = {
            "Handshake": self._handshake,
            "GetFlightInfo": self._get_flight_info,
            "GetSchema": self._get_schema,
            "DoGet": self._do_get,
            "DoAction": self._do_action,
            "ListActions": self._list_actions,
            "ListFlights": self._refuse("ListFlights"),
            "PollFlightInfo": self._refuse("PollFlightInfo"),
            "DoPut": self._refuse("DoPut, which brings parameters or rows,"),
            "DoExchange": self._refuse("DoExchange"),
        }
        # All as streams, which are the same to a client: gRPC would await the message of another call before its token
        # is looked at, for as long as that takes.
        handlers = {
            name: grpc.stream_stream_rpc_method_handler(answer, response_serializer=_bytes)
            for name, answer in answered.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        if tls is None:
            server.add_insecure_port(address)
        else:
            certificate, key = (file.read_bytes() for file in tls)
            server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End all calls."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)

    async def _handshake(self, _: object, context: _Context) -> None:
        async with self._call(context) as call:
            if not (call.token.isascii() and call.token.isprintable()):
                raise UsageError("the password has characters that a header cannot carry; allowed are those of ASCII")
            # The client sends on what it gets as its token.
            await context.send_initial_metadata((*call.greeting, ("authorization", f"Bearer {call.token}")))
            await _write(context, flight.HandshakeResponse())

    async def _get_flight_info(self, _: object, context: _Context) -> None:
        async with self._call(context) as call:
            info = await _while_waited_for(call, self._service.get_flight_info(call, await _message(context)))
            await context.send_initial_metadata(call.greeting)
            await _write(context, info)

    async def _get_schema(self, _: object, context: _Context) -> None:
        async with self._call(context) as call:
            schema = await _while_waited_for(call, self._service.get_schema(call, await _message(context)))
            await _write(context, schema)

    async def _do_get(self, _: object, context: _Context) -> None:
        async with self._call(context) as call:
            messages = await _while_waited_for(call, self._service.do_get(call, await _message(context)))
            for message in messages:
                await _write(context, message)

    async def _do_action(self, _: object, context: _Context) -> None:
        async with self._call(context) as call:
            results, headers = await _while_waited_for(call, self._service.do_action(call, await _message(context)))
            await context.send_initial_metadata((*call.greeting, *headers))
            for result in results:
                await _write(context, flight.Result(body=result))

    async def _list_actions(self, _: object, context: _Context) -> None:
        async with self._call(context):
            for name, description in ACTIONS.items():
                await _write(context, flight.ActionType(type=name, description=description))

    def _refuse(self, what: str) -> Callable[[Any, _Context], Awaitable[None]]:
        async def refuse(_: Any, context: _Context) -> None:
            async with self._call(context):
                raise HTTPException(501, READ_ONLY.format(what))

        return refuse

    @asynccontextmanager
    async def _call(self, context: _Context) -> AsyncIterator[Call]:
        """A call, open during the block. Whatever is raised in it becomes a status with one sentence."""
        try:
            call = Call(context, self._tokens)
            with self._counted(call.client.name):
                yield call
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except grpc.aio.InternalError:  # From a write: the client is gone, as a rule.
            with suppress(grpc.aio.InternalError):
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was cut off; ask again")
        except Exception as error:
            status = explain(error)
            with suppress(grpc.aio.InternalError):  # The client may be gone.
                await context.abort(*status)

    @contextmanager
    def _counted(self, client: str) -> Iterator[None]:
        if self._open[client] >= OPEN_PER_CLIENT or self._open.total() >= OPEN_IN_ALL:
            raise TooManyError(
                f"{self._open[client]} calls of yours are open, {self._open.total()} in all; allowed are "
                f"{OPEN_PER_CLIENT} and {OPEN_IN_ALL}: try again when some are answered"
            )
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


async def _while_waited_for(call: Call, answer: Coroutine[Any, Any, _T]) -> _T:
    """The answer. If the client goes away, what computes it is told so, and ends by itself. The call is open until
    then: it would take more than its share otherwise.
    """
    task = asyncio.create_task(answer)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        call.gone = True
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # Nobody is told of it.
        await asyncio.wait({task})
        raise


async def _message(context: _Context) -> bytes:
    """The message that a call brings. Raises MalformedError, TimedOutError."""
    try:
        async with asyncio.timeout(_MESSAGE_SECONDS):
            content = await context.read()
    except TimeoutError:
        raise TimedOutError(f"the message of the call did not come within {_MESSAGE_SECONDS:g} s") from None
    if content is grpc.aio.EOF:
        raise MalformedError("the call has no message")
    found: bytes = content
    return found


async def _write(context: _Context, message: Any) -> None:
    """Send a message. A client that takes nothing for half a minute is given up."""
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await context.write(message)
    except TimeoutError:
        raise TimedOutError(f"the client took nothing of its answer for {STALLED_SECONDS:g} s") from None


def _bytes(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content
