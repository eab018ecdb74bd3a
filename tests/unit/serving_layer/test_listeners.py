"""The clients that listen to the feed of changed hours: none of them misses a step, however slowly it reads."""

import asyncio
from datetime import UTC, datetime

from serving_layer.change_feed import Step, Update
from serving_layer.http.listeners import Listeners
from serving_layer.query_scope import HourState

FIRST, SECOND = (HourState("visits", datetime(2024, 3, 1, number, tzinfo=UTC), "final") for number in range(2))


async def never(token: str) -> Update:
    raise AssertionError(f"{token} is known")


def test_a_step_that_comes_while_the_first_update_is_sent_is_told_next() -> None:
    async def hours_after_the_first_update() -> list[HourState]:
        listeners = Listeners("p0")
        updates = listeners.listen("p0", never)
        await anext(updates)
        listeners.tell(Step("p1", [FIRST]))  # The client still takes the first update.
        told = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0)
        listeners.tell(Step("p2", [SECOND]))
        return (await told).hours

    assert FIRST in asyncio.run(hours_after_the_first_update())


def test_a_token_of_another_server_is_caught_up_with_and_no_step_is_missed() -> None:
    async def hours_of_both() -> list[HourState]:
        listeners = Listeners("p1")

        async def catch_up(token: str) -> Update:
            listeners.tell(Step("p2", [SECOND]))  # while the tables are compared
            return Update("p1", [FIRST], complete=True)

        updates = listeners.listen("p0", catch_up)
        return [*(await anext(updates)).hours, *(await anext(updates)).hours]

    assert asyncio.run(hours_of_both()) == [FIRST, SECOND]
