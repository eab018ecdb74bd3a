"""Server-sent events: what has changed, as it happens."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from hourline_core.errors import HourlineError
from hourline_core.feed.changed_findings import findings_changed_after
from hourline_core.feed.confirmed_gaps import confirmed_after
from hourline_core.feed.feed_position import FeedPosition
from hourline_core.model.hours import iso_text
from serving_layer.change_feed import Update, changed_hours, final_windows_of
from serving_layer.connection import Connection
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.limits import STREAM_PATH
from serving_layer.reports.findings import describe_finding
from serving_layer.snapshots import position_of

routes = APIRouter(tags=["changes"])


@routes.get(STREAM_PATH, response_class=EventSourceResponse)
async def changes(
    request: Request,
    answering: Annotated[Answering, Depends(answering_of)],
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events about changes. An `hour` event (metric, hour, state, token) is sent for each hour whose
    state or numbers have changed. A `window` event (metric, window_start, window_end, state, token) is sent for each
    declared window that is final and has such an hour, or that is final since by the clock alone. A `finding` event
    (id, change, token, and the finding) says that one was `opened` or `closed`; one that comes again has the same `id`.
    A `token` event (token, complete) follows for each new snapshot. If `complete` is false, more may have changed: read
    everything again. `Last-Event-ID`, the id of the last event, continues from there, also after a restart of the
    server, for as long as an answer with that token can be repeated. A token alone is such an id, too: all recorded
    findings follow then.
    """

    async def catch_up(position: str) -> Update:
        def work(connection: Connection) -> Update:
            asked = FeedPosition.parse(position)
            gaps = confirmed_after(connection.project, asked.confirmations)
            with answering.snapshots.reader(asked.token) as before:
                hours = changed_hours(before, connection, gaps)
                windows = final_windows_of(before, connection, hours or [], gaps)
            found = findings_changed_after(connection.project, asked.findings)
            reached = position_of(connection, found.up_to)
            return Update(reached, hours or [], hours is not None, windows, [*found.changes])

        try:
            return await answering.compute(request, work)
        except HourlineError:  # There is no such answer any more, or never was. So the client gets everything anew.
            return Update(answering.snapshots.position, [], complete=False)

    async for update in answering.listeners.listen(last_event_id, catch_up):
        token = FeedPosition.parse(update.position).token
        for name, data in _entries(update):
            yield ServerSentEvent(event=name, data={"token": token, **data})
        # The id comes last: a client that is cut off between two hours is told all of them again.
        yield ServerSentEvent(event="token", data={"token": token, "complete": update.complete}, id=update.position)


def _entries(update: Update) -> Iterator[tuple[str, dict[str, Any]]]:
    for metric, hour, state in update.hours:
        yield "hour", {"metric": metric, "hour": iso_text(hour), "state": state}
    for window in update.windows:
        span = {"window_start": iso_text(window.start), "window_end": iso_text(window.end)}
        yield "window", {"metric": window.metric, **span, "state": "final", "token": window.token}
    for one in update.findings:
        told = describe_finding(one.finding).model_dump(mode="json")
        yield "finding", {"id": one.id, "change": "closed" if one.is_closed else "opened", **told}
