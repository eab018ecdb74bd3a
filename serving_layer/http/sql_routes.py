"""Free SQL over HTTP, if ``serve.sql`` is on: one SELECT over the views, run in the sandbox, for admins."""

from collections.abc import Mapping
from threading import Event
from typing import Annotated, Literal

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.access import admin_only
from serving_layer.http.answering import Answering, Body, answering_of
from serving_layer.http.at_least import Asked, Waits, asked_of
from serving_layer.http.formats import (
    MEDIA_TYPES,
    Format,
    columns_of,
    format_of,
    json_bytes,
    rows_arrow,
    rows_csv,
    rows_json,
)
from serving_layer.http.free_sql import OFF, FreeSql, rows_of, sources_of
from serving_layer.http.waiting import ASKED, WaitingOf, headers_of, look_up, waiting_in

routes = APIRouter(prefix="/api/v1", tags=["sql"])


class SqlQuestion(Described):
    """A query."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(
        description="One SELECT over the views, such as SELECT hour, sum(views) FROM views_by_page GROUP BY hour."
    )


class SqlColumn(Described):
    """A column."""

    name: str
    """The name."""
    type: str
    """The type, as DuckDB names it."""
    error: str | None
    """How near its values are to the truth, in words, if it has the name of an estimate of a metric."""


class SqlAnswer(Described):
    """The rows of a query."""

    token: str
    """The token of the snapshot."""
    waiting: list[WaitingOf] | None
    """What it does not count yet, if `waiting` was asked for. Null: it was not."""
    columns: list[SqlColumn]
    """The columns of the rows."""
    rows: list[dict[str, object]]
    """The rows. Lists and structs are lists and objects of JSON; in CSV, a cell has them as JSON."""


@routes.post(
    "/sql",
    response_model=SqlAnswer,
    dependencies=[Depends(admin_only)],
    responses={200: {"content": {media_type: {} for media_type in MEDIA_TYPES.values()}}},
)
async def free_sql(
    request: Request,
    question: SqlQuestion,
    answering: Annotated[Answering, Depends(answering_of)],
    format: Annotated[Format | None, Query(description="The format. Without it, the Accept header chooses.")] = None,
    integers: Annotated[Literal["number", "text"], Query(description="As for the rows of a metric.")] = "number",
    waiting: Annotated[bool, Query(description=ASKED)] = False,
    asked: Annotated[Asked | None, Depends(asked_of)] = None,
) -> Response:
    """The rows of one SELECT over the views, for admins. If two columns have one name, the second gets a number."""
    running: FreeSql | None = request.app.state.free_sql
    if running is None:
        raise HTTPException(403, OFF)
    form = format_of(request.headers.get("accept", ""), format)
    if asked is not None:
        waits: Waits = request.app.state.waits
        sources = await run_in_threadpool(sources_of, answering.snapshots, question.sql)
        await waits.wait(request, answering, asked, sources)
    offsets, gone = await look_up(answering, waiting=waiting), Event()

    def work(connection: Connection) -> Body:
        with connection.explaining(question.sql):
            rows = rows_of(running, connection, question.sql, gone)
            found = waiting_in(connection, question.sql, offsets)
            errors = connection.errors_of(question.sql, rows.column_names)
            return _body(connection, rows, errors, form, integers == "text", found)

    return await answering.answer_once(request, work, on_stop=gone.set)


def _body(
    connection: Connection,
    rows: pa.Table,
    errors: Mapping[str, str],
    form: Format,
    integers_as_text: bool,
    waiting: list[WaitingOf] | None,
) -> Body:
    token = connection.token
    match form:
        case "json":
            head = json_bytes(
                {"token": token, "waiting": waiting, "columns": columns_of(connection.database, rows, errors)}
            )[:-1]
            content = (
                head + b',"rows":' + rows_json(connection.database, rows, integers_as_text=integers_as_text) + b"}"
            )
        case "csv":
            content = rows_csv(connection.database, rows)
        case "arrow":
            content = rows_arrow(rows, {"token": token})
    return Body(content, MEDIA_TYPES[form], {"Hourline-Token": token, **headers_of(waiting)})
