"""The clients that listen to the feed of changed hours."""

import asyncio
from collections.abc import AsyncIterator

from serving_layer.change_feed import ChangeFeed, Step, Update


class Listeners:
    """Passes each step of the feed to all clients. For one event loop. A slow client falls behind, and delays
    nobody.
    """

    def __init__(self, token: str) -> None:
        self._feed = ChangeFeed(token)
        self._next = asyncio.Event()
        self._closed = False

    def tell(self, step: Step) -> None:
        """Pass a step to all clients."""
        if self._feed.add(step):
            self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    async def listen(self, token: str | None) -> AsyncIterator[Update]:
        """First the changes since ``token`` (incomplete if it is None, or too old), and then each step as it comes."""
        # The number is read before the update is passed on, since further steps come while a slow client takes it.
        update, number = self._feed.since(self._feed.find(token)), self._feed.newest
        yield update
        while not self._closed:
            if number == self._feed.newest:
                await self._next.wait()
                continue
            update, number = self._feed.since(number), self._feed.newest
            yield update

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()
