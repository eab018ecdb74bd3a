"""Server-sent events: which hours have changed, as it happens."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from hourline_core.errors import HourlineError
from hourline_core.model.hours import iso_text
from serving_layer.change_feed import Update, changed_hours
from serving_layer.connection import Connection
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.limits import STREAM_PATH

routes = APIRouter(tags=["changes"])


@routes.get(STREAM_PATH, response_class=EventSourceResponse)
async def changes(
    request: Request,
    answering: Annotated[Answering, Depends(answering_of)],
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events about changes. An `hour` event (metric, hour, state, token) is sent for each hour whose state
    or numbers have changed. A `token` event (token, complete) follows for each new snapshot. If `complete` is false,
    more may have changed: read everything again. `Last-Event-ID`, the token of the last event, continues from there,
    also after a restart of the server, for as long as an answer with that token can be repeated.
    """

    async def catch_up(token: str) -> Update:
        def work(connection: Connection) -> Update:
            with answering.snapshots.reader(token) as before:
                hours = changed_hours(before, connection)
            return Update(connection.token, hours or [], complete=hours is not None)

        try:
            return await answering.compute(request, work)
        except HourlineError:  # There is no such answer any more, or never was. So the client gets everything anew.
            return Update(answering.snapshots.token, [], complete=False)

    async for update in answering.listeners.listen(last_event_id, catch_up):
        token = update.token
        for metric, hour, state in update.hours:
            data = {"metric": metric, "hour": iso_text(hour), "state": state, "token": token}
            yield ServerSentEvent(event="hour", data=data)
        # The id comes last: a client that is cut off between two hours is told all of them again.
        yield ServerSentEvent(event="token", data={"token": token, "complete": update.complete}, id=token)
