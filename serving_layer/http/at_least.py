"""Answers that count at least what a client names: a request waits for it, and takes no thread of the answers."""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from hourline_core.errors import UsageError
from serving_layer.at_least.awaited import LOOK_SECONDS, SETTLE_SECONDS, Awaited, CountedSources
from serving_layer.at_least.form import WAIT_SECONDS, AtLeast, parse_at_least
from serving_layer.at_least.targets import NotHeldError
from serving_layer.http.access import Asker, client_of
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.error_responses import TimedOutError, TooManyError
from serving_layer.snapshots import Snapshots

HEADER = "Hourline-At-Least"
MOST_SECONDS = 300
"""The maximum time that a client may have an answer wait."""
PER_CLIENT = 16
IN_ALL = 64
"""The maximum number of requests that wait. They are open, so they take from the limits of these."""


@dataclass(frozen=True)
class Asked:
    """What a client asks an answer to count."""

    at_least: AtLeast
    seconds: float
    """How long to wait for it."""


def asked_of(
    request: Request,
    at_least: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description="Wait until this is counted: `TOPIC:PARTITION=OFFSET` with the offset that Kafka has told the "
            "producer, such as `flights:0=9977` (several with commas), or `now` for all that Kafka holds.",
        ),
    ] = None,
    prefer: Annotated[
        str | None,
        Header(
            alias="Prefer", description="`wait=10` waits for 10 seconds at most. Without it: 30. Allowed are up to 300."
        ),
    ] = None,
) -> Asked | None:
    """What the headers of a request ask for. None: nothing. A dependency of routes. Raises UsageError."""
    headers = request.headers
    return parse_asked(headers.getlist(HEADER), headers.getlist("prefer"), with_as_of="as_of" in request.query_params)


def parse_asked(at_least: Collection[str], prefer: Collection[str], *, with_as_of: bool) -> Asked | None:
    """The same of the headers themselves. A list may be in one header, or in several. ``with_as_of``: an earlier
    answer is asked for, too.
    """
    if not at_least:
        return None
    if with_as_of:
        raise UsageError(f"{HEADER} is about the newest result: leave out as_of")
    return Asked(parse_at_least([text for header in at_least for text in header.split(",")]), _seconds(prefer))


def _seconds(headers: Collection[str]) -> float:
    for preference in (one for header in headers for one in header.split(",")):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().casefold() == "wait":
            text = value.strip().strip('"')
            if not text.isdecimal() or not text.isascii() or int(text[:9]) > MOST_SECONDS:
                raise UsageError(f"got Prefer: wait={text}, allowed is a number of seconds from 0 to {MOST_SECONDS}")
            return float(text)
    return WAIT_SECONDS


class Waits:
    """The requests of one server that wait. For one event loop."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._counting = CountedSources(snapshots.project)
        self._waiting: Counter[str] = Counter()

    async def wait(self, asker: Asker, answering: Answering, asked: Asked, sources: Collection[str]) -> None:
        """Wait until the newest snapshot counts what is asked of ``sources``.

        Raises NotCountedYetError when the time is over, TooManyError if too many wait, TimedOutError when the client
        has gone, and as ``Awaited`` does.
        """
        client = client_of(asker).name
        if self._waiting[client] >= PER_CLIENT or self._waiting.total() >= IN_ALL:
            raise TooManyError(
                f"{self._waiting[client]} requests of yours wait for records to be counted, {self._waiting.total()} in "
                f"all; allowed are {PER_CLIENT} and {IN_ALL}: try again when some are answered"
            )
        self._waiting[client] += 1
        with self._snapshots.looked_at_often():
            try:
                await self._wait(asker, answering, asked, sources)
            finally:
                self._waiting[client] -= 1
                if not self._waiting[client]:
                    del self._waiting[client]

    async def _wait(self, asker: Asker, answering: Answering, asked: Asked, sources: Collection[str]) -> None:
        loop = asyncio.get_running_loop()
        begun, listeners = loop.time(), answering.listeners
        awaited = Awaited(self._counting, self._snapshots.project, sources, asked.at_least)
        while True:
            try:
                await run_in_threadpool(awaited.aim, await answering.kafka_offsets_from_now())
                break
            except NotHeldError:
                if loop.time() > begun + SETTLE_SECONDS:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
        seen, is_counted = -1, False
        while not (is_counted and self._has(awaited.sequences)):
            if not is_counted and seen != listeners.newest:
                seen = listeners.newest
                is_counted = await run_in_threadpool(awaited.look)
                continue
            if loop.time() > begun + asked.seconds:
                raise awaited.too_late(asked.seconds)
            await listeners.next_step(LOOK_SECONDS)
            if listeners.closed:
                raise HTTPException(503, "the server is being stopped")
            if await asker.is_disconnected():
                raise TimedOutError("the wait was ended: nobody waits for its answer")

    def _has(self, sequences: dict[str, int]) -> bool:
        """Whether the newest snapshot has these sequences, by source."""
        known = self._snapshots.newest.snapshot.progress
        return all(name in known and known[name].sequence >= sequence for name, sequence in sequences.items())


async def wait_until_counted(
    request: Request,
    answering: Annotated[Answering, Depends(answering_of)],
    asked: Annotated[Asked | None, Depends(asked_of)],
) -> None:
    """A dependency of routes: the answer counts what the client asks, of the source of its metric, or of all sources.
    Raises as ``Waits.wait``.
    """
    project, given = answering.project, {**request.query_params, **request.path_params}
    sources = list(project.sources)
    if "metric" in given:
        metric = project.all_metrics.get(given["metric"])
        sources = [metric.source] if metric else []
    elif "source" in given:
        sources = [given["source"]] if given["source"] in project.sources else []
    if asked is not None and sources:  # Without one, the route says that there is no such metric or source.
        waits: Waits = request.app.state.waits
        await waits.wait(request, answering, asked, sources)
