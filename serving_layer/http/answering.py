"""Computes answers in threads, by turns. An answer is stopped at the time limit, or when nobody waits for it any
more. It is not computed if the client has it already.
"""

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Event
from typing import Any, Generic, TypeVar

import duckdb
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from hourline_core.model import Project, to_stored
from serving_layer.connection import Connection
from serving_layer.http.access import Asker, client_of
from serving_layer.http.error_responses import TimedOutError, TooLargeError
from serving_layer.http.formats import json_bytes
from serving_layer.http.limits import Turns
from serving_layer.http.listeners import Listeners
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets
from serving_layer.snapshots import Snapshots

_T = TypeVar("_T")

_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Body:
    """An answer as bytes."""

    content: bytes
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)


class Answering:
    """Computes the answers of one server."""

    def __init__(self, project: Project, snapshots: Snapshots) -> None:
        self.project = project
        self.settings = project.settings.serve
        self.snapshots = snapshots
        self.listeners = Listeners(snapshots.position)
        self._kafka_offsets = KafkaOffsets(project)
        self.turns = Turns(self.settings.concurrent, self.settings.per_client)
        self._threads = ThreadPoolExecutor(self.settings.concurrent, "answering")
        self._declared = _hash_declarations(project)
        self._closing = False

    async def compute(
        self,
        asker: Asker,
        work: Callable[[Connection], _T],
        as_of: str | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> _T:
        """The result of ``work`` on a connection at the newest snapshot, or at that of ``as_of``.

        ``on_stop`` is called, perhaps often, when what runs beside the connection's queries must stop, too. Raises what
        ``work`` raises, TooManyError when its turn did not come, and TimedOutError when it was stopped at the time
        limit.
        """
        seconds = self.settings.timeout.total_seconds()
        async with self.turns.turn(client_of(asker).name, seconds, asker.is_disconnected):
            if self._closing:
                raise HTTPException(503, "the server is being stopped")
            job = _Job[_T](self.snapshots, work, as_of, on_stop)
            future = asyncio.get_running_loop().run_in_executor(self._threads, job.run)
            begun = asyncio.get_running_loop().time()
            why = ""
            try:
                while not future.done():
                    await asyncio.wait({future}, timeout=_LOOK_SECONDS)
                    if asyncio.get_running_loop().time() - begun > seconds:
                        why = (
                            f"the query was stopped after {seconds:g} s (serve.timeout); "
                            "ask for fewer hours, or for less of them"
                        )
                    elif self._closing or await asker.is_disconnected():
                        why = "the query was stopped: the server ends, or nobody waits for its answer"
                    if why:
                        job.stop()  # Repeatedly, since DuckDB forgets it between two statements.
            finally:
                if not future.done():
                    job.stop()
        if why and future.exception() is not None:
            raise TimedOutError(why)
        return future.result()

    async def answer(
        self, request: Request, work: Callable[[Connection], Body], as_of: str | None = None, kind: str = "json"
    ) -> Response:
        """The answer as a response. Its ETag is made of what the answer depends on: the snapshot, what a person has
        confirmed, the metrics that have tables, the declarations, the ``kind`` of format, and the time if hours close
        by wall time.
        """
        if as_of is None and (known := self._unchanged(request, self._tag(self.snapshots.newest, kind))):
            return known

        def tag_and_answer(connection: Connection) -> tuple[str, Body]:
            return self._tag(connection, kind), work(connection)

        tag, body = await self.compute(request, tag_and_answer, as_of)
        return self._unchanged(request, tag) or self.respond(body, tag)

    async def report(self, request: Request, work: Callable[[Connection], Any], as_of: str | None = None) -> Response:
        """The answer as JSON (or JSON as bytes already), if it depends on more than the tables. Its ETag is made of
        its content.
        """

        def encode(connection: Connection) -> bytes:
            result = work(connection)
            return result if isinstance(result, bytes) else json_bytes(result)

        content = await self.compute(request, encode, as_of)
        tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
        return self._unchanged(request, tag) or self.respond(Body(content, "application/json"), tag)

    async def answer_once(
        self, request: Request, work: Callable[[Connection], Body], on_stop: Callable[[], None] = lambda: None
    ) -> Response:
        """The answer as a response that is not to be kept, since it depends on more than the tables. ``on_stop`` is
        that of ``compute``.
        """
        body = await self.compute(request, work, on_stop=on_stop)
        self._refuse_large(body)
        return Response(body.content, headers={**body.headers, "Cache-Control": "no-store"}, media_type=body.media_type)

    async def kafka_offsets_within_limit(self) -> Offsets:
        """The offsets in Kafka. It takes no thread of the answers, and no longer than the limit."""
        look_up = asyncio.wrap_future(self._kafka_offsets.look_up())
        try:
            return await asyncio.wait_for(asyncio.shield(look_up), self._kafka_offsets.seconds)
        except TimeoutError:
            return self._kafka_offsets.give_up()

    async def kafka_offsets_from_now(self) -> Offsets:
        """The same, as they are now or later: a look-up that has begun before may lack the last records."""
        if running := self._kafka_offsets.running:
            done, _ = await asyncio.wait({asyncio.wrap_future(running)}, timeout=self._kafka_offsets.seconds)
            if not done:
                return self._kafka_offsets.give_up()
        return await self.kafka_offsets_within_limit()

    def respond(self, body: Body, tag: str) -> Response:
        """Raises TooLargeError."""
        self._refuse_large(body)
        return Response(body.content, headers={**_cache_headers(tag), **body.headers}, media_type=body.media_type)

    def _refuse_large(self, body: Body) -> None:
        if len(body.content) > self.settings.bytes:
            raise TooLargeError(
                f"the answer has {len(body.content):,} bytes, allowed are {self.settings.bytes:,} (serve.bytes); ask "
                "for fewer hours or rows"
            )

    def close(self) -> None:
        """End all streams, and stop what is being computed."""
        self._closing = True
        self.listeners.close()
        self._threads.shutdown(wait=False)

    def _tag(self, connection: Connection, kind: str) -> str:
        # A token does not name what a person has confirmed, nor the time. Tables of a metric may come without another
        # token. The time of an earlier answer does not go on.
        confirmed = connection.snapshot.other_tables.get("confirmations")
        served = [(tables.name, tables.served) for tables in connection.snapshot.metrics]
        taken = connection.taken if self.project.closes_by_wall_time and not connection.is_past else None
        parts = f"{self._declared}\n{self.snapshots.identity}\n{confirmed}\n{served}\n{taken}"
        made_of = hashlib.sha256(parts.encode()).hexdigest()[:8]
        return f'"{connection.token}.{made_of}.{kind}"'

    @staticmethod
    def _unchanged(request: Request, tag: str) -> Response | None:
        held = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        return Response(status_code=304, headers=_cache_headers(tag)) if tag in held or "*" in held else None


def answering_of(request: Request) -> Answering:
    """A route's dependency."""
    answering: Answering = request.app.state.answering
    return answering


def start_answering(app: FastAPI, project: Project, snapshots: Snapshots) -> Answering:
    """Have the routes of ``app`` find it."""
    app.state.answering = answering = Answering(project, snapshots)
    return answering


class _Job(Generic[_T]):
    """One computation, in a thread."""

    def __init__(
        self, snapshots: Snapshots, work: Callable[[Connection], _T], as_of: str | None, on_stop: Callable[[], None]
    ) -> None:
        self._snapshots = snapshots
        self._work = work
        self._as_of = as_of
        self._on_stop = on_stop
        self._connection: Connection | None = None
        self._stopped = Event()

    def run(self) -> _T:
        with self._snapshots.reader(self._as_of) as self._connection:
            if self._stopped.is_set():
                raise TimedOutError("the query was stopped before it began")
            return self._work(self._connection)

    def stop(self) -> None:
        self._stopped.set()
        self._on_stop()
        if self._connection is not None:
            with suppress(duckdb.Error):  # it is closed already
                self._connection.interrupt()


def _hash_declarations(project: Project) -> str:
    """A short hash that changes with the program and the declarations, since the same tables may give another answer
    then.
    """
    parts = [version("hourline"), project.name, project.settings.serve.model_dump_json(include={"sql", "rows"})]
    for _, metric in sorted(project.all_metrics.items()):
        parts += [to_stored(project.source_of(metric), metric), str(metric.window)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _cache_headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept, Authorization"}
