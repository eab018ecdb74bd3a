"""What changes from one snapshot to the next, told to whoever listens, as server-sent events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from serving_layer.connection import Connection

_KEPT = 512
"""So many steps can be made up for by a client that was away."""
_MOST_HOURS = 2_000
"""A step that changes more hours (a backfill of a year) is told as one: look at everything again."""

_HOURS = "SELECT metric, declaration, hour, state, events, cutoff FROM hourline.metric_hours WHERE served"


@dataclass(frozen=True)
class Step:
    """A new snapshot."""

    token: str
    hours: list[tuple[str, str, str]] | None
    """metric, hour (ISO, UTC) and state of each hour whose state or numbers may be other than before; None: too many to
    tell.
    """


@dataclass(frozen=True)
class Told:
    """What a client is told at once."""

    token: str
    hours: list[tuple[str, str, str]]
    complete: bool
    """Whether these are all hours that changed since it was told before; if not, it should ask for everything again."""


def changed_hours(before: Connection, after: Connection) -> list[tuple[str, str, str]] | None:
    """The hours whose state or numbers are other than before: those that events were added to, or that were recomputed,
    blocked or reset.
    """
    with before.twin() as old, after.twin() as new:
        new.database.register("_before", old.database.execute(_HOURS).to_arrow_table())
        rows = new.database.execute(f"""
            SELECT metric, strftime(hour, '%Y-%m-%dT%H:%M:%SZ'), state FROM ({_HOURS} EXCEPT FROM _before)
            ORDER BY hour, metric LIMIT {_MOST_HOURS + 1}""").fetchall()
    return rows if len(rows) <= _MOST_HOURS else None


class Changes:
    """The last steps, and those who wait for the next one. For one event loop; a client that is slow is behind, and
    costs nothing else.
    """

    def __init__(self, token: str) -> None:
        self._steps = deque([Step(token, [])], maxlen=_KEPT)
        self._number = 0
        """Of the newest step."""
        self._next = asyncio.Event()
        self._closed = False

    def add(self, step: Step) -> None:
        """Tell a step to all."""
        if step.token == self._steps[-1].token and step.hours == []:
            return  # the same tables, read again
        self._steps.append(step)
        self._number += 1
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    async def since(self, token: str | None) -> AsyncIterator[Told]:
        """At once what has changed since ``token`` (None, or one that is long ago: incomplete), and then each step as
        it comes.
        """
        at = next((self._number - back for back, step in enumerate(reversed(self._steps)) if step.token == token), None)
        yield self._told(at)
        at = self._number
        while not self._closed:
            if at == self._number:
                await self._next.wait()
                continue
            told, at = self._told(at), self._number
            yield told

    def _told(self, at: int | None) -> Told:
        newest = self._steps[-1].token
        if at is None or self._number - at >= len(self._steps):
            return Told(newest, [], complete=False)
        missed = [step.hours for step in list(self._steps)[len(self._steps) - (self._number - at) :]]
        hours = {(metric, hour): state for step in missed for metric, hour, state in step or []}
        return Told(newest, [(*key, state) for key, state in hours.items()], complete=None not in missed)

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()
