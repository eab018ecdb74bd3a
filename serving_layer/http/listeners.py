"""The clients that listen to the feed of what changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from serving_layer.change_feed import ChangeFeed, Step, Update


class Listeners:
    """Passes each step of the feed to all clients. For one event loop. A slow client falls behind, and delays
    nobody.
    """

    def __init__(self, position: str) -> None:
        self._feed = ChangeFeed(position)
        self._next = asyncio.Event()
        self.closed = False
        """Whether the server ends."""

    @property
    def newest(self) -> int:
        """The number of the newest step."""
        return self._feed.newest

    def tell(self, step: Step) -> None:
        """Pass a step to all clients."""
        if self._feed.add(step):
            self._wake()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._wake()

    async def listen(self, position: str | None, catch_up: Callable[[str], Awaitable[Update]]) -> AsyncIterator[Update]:
        """First the changes since ``position`` (incomplete if it is None), and then each step as it comes. ``catch_up``
        finds the changes since a position whose step is not among the last ones.
        """
        # The number is read before the update is passed on, since further steps come while a slow client takes it.
        number, known = self._feed.newest, self._feed.find(position)
        update = self._feed.since(known) if known is not None or position is None else await catch_up(position)
        yield update
        while not self.closed:
            if number == self._feed.newest:
                await self._next.wait()
                continue
            update, number = self._feed.since(number), self._feed.newest
            yield update

    async def next_step(self, seconds: float) -> None:
        """Wait for the next step, or the end of the server, ``seconds`` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._next.wait()

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()
