"""The route that says how the results of a metric differ from those of an earlier time."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.errors import UsageError
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.answering import Answering, Body, answering_of
from serving_layer.http.formats import (
    MEDIA_TYPES,
    Format,
    fetch,
    format_of,
    json_bytes,
    rows_arrow,
    rows_csv,
    rows_json,
)
from serving_layer.reports.cell import find_tables

routes = APIRouter(prefix="/api/v1", tags=["changes"])


class ChangesParameters(Described):
    """Since when."""

    since: str = Field(description="The earlier answer: its token, or a time such as 2026-03-02T10:00 (UTC).")
    to: str | None = Field(None, description="The later answer: its token, or a time. Without it: the newest.")
    limit: int | None = Field(
        None, ge=1, description="The maximum number of changes on a page. Without it: `serve.rows`."
    )
    page: int = Field(1, ge=1, le=2**31, description="The number of the page, from 1. `next` leads to the next page.")
    format: Format | None = Field(None, description="The format. Without it, the Accept header chooses.")


class Change(Described):
    """One difference."""

    metric: str
    """The name of the metric."""
    window_start: str | None
    """The start of the window (UTC). Null: a `replace` of the whole metric."""
    window_end: str | None
    """The end of the window (UTC, exclusive)."""
    dimensions: dict[str, str | None] | None
    """The dimensions of the result, as text."""
    change: str
    """`replace`, `delete`, `update` or `insert`. They apply in their order."""
    measure: str | None
    """The name of the measure. Null: a `replace`."""
    before: str | None
    """The earlier value, as text."""
    after: str | None
    """The later value, as text."""
    causes: list[str]
    """Why it has changed."""


class ChangesAnswer(Described):
    """How results differ from earlier ones."""

    since: str
    """The token of the earlier answer."""
    token: str
    """The token of the later answer: `since` of the next question."""
    changes: list[Change]
    """The changes, in the order in which they apply."""
    next: str | None
    """The address of the next page. Null: this is the last one."""


@routes.get(
    "/metrics/{metric}/changes",
    response_model=ChangesAnswer,
    responses={200: {"content": {media_type: {} for media_type in MEDIA_TYPES.values()}}},
)
async def changed_rows(
    request: Request,
    answering: Annotated[Answering, Depends(answering_of)],
    metric: str,
    parameters: Annotated[ChangesParameters, Query()],
) -> Response:
    """How the results of a metric differ from those of an earlier answer, and why. Applied in their order, the changes
    make the earlier answer the later one. CSV and Arrow have the tokens and the next page in their headers.
    """
    most = answering.settings.rows
    limit = most if parameters.limit is None else parameters.limit
    if limit > most:
        raise UsageError(f"got limit {limit:,}, allowed are {most:,} rows on a page (serve.rows)")
    form = format_of(request.headers.get("accept", ""), parameters.format)

    def work(connection: Connection) -> Body:
        find_tables(connection, metric)
        with answering.snapshots.reader(parameters.since) as before:
            since = before.token
            connection.compare_with(before, [metric])
        rows = fetch(
            connection.attached(),
            "FROM changes LIMIT ? OFFSET ?",
            [limit + 1, limit * (parameters.page - 1)],
            answering.settings.bytes,
        )
        following = None
        if rows.num_rows > limit:
            asked = {"since": since, "to": connection.token, "limit": limit, "page": parameters.page + 1}
            following = f"{request.url.path}?{urlencode(asked)}"
        rows = rows.slice(0, limit)
        headers = {"Hourline-Token": connection.token, "Hourline-Since": since}
        if following:
            headers["Link"] = f'<{following}>; rel="next"'
        match form:
            case "json":
                head = json_bytes({"since": since, "token": connection.token})[:-1]
                found = rows_json(connection.attached(), rows)
                content = head + b',"changes":' + found + b',"next":' + json_bytes(following) + b"}"
            case "csv":
                content = rows_csv(connection.attached(), rows)
            case "arrow":
                content = rows_arrow(rows, {"since": since, "token": connection.token})
        return Body(content, MEDIA_TYPES[form], headers)

    if parameters.to is None:
        return await answering.answer_once(request, work)
    return await answering.answer(request, work, parameters.to, form)
