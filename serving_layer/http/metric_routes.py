"""Routes for metrics: the list of them, their rows by parameters, and one cell of one hour."""

from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.aggregates import aggregate_of
from hourline_core.errors import UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.report_pages import anchor, page_name, page_path, report_site
from hourline_core.ledger.time_travel import find_forgotten
from hourline_core.model.hours import HourRange, parse_hour
from hourline_core.sql.literals import identifier
from hourline_core.sql.types import column_types
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.access import client_of
from serving_layer.http.answering import Answering, Body, answering_of
from serving_layer.http.formats import (
    MEDIA_TYPES,
    Format,
    columns_of,
    fetch,
    format_of,
    json_bytes,
    rows_arrow,
    rows_csv,
    rows_json,
)
from serving_layer.http.metric_answers import (
    CellAnswer,
    Column,
    MetricAnswer,
    MetricSummary,
    ProjectAnswer,
    SourceSummary,
)
from serving_layer.http.metric_query import (
    Grain,
    MetricQuestion,
    metric_sql,
    parse_cell,
    parse_hours,
    parse_where,
    states_in,
)
from serving_layer.http.report_pages import report_address
from serving_layer.http.waiting import ASKED, WaitingOf, headers_of, look_up, waiting_in
from serving_layer.query_scope import HourState, refuse_forgotten, refuse_weak
from serving_layer.reports.cell import NotFoundError, find_cell, find_tables, finish_values, refuse_without_rows
from serving_layer.reports.hour_summary import read_clocks

routes = APIRouter(prefix="/api/v1", tags=["metrics"])

DEFAULT_ROWS = 1_000

TheAnswering = Annotated[Answering, Depends(answering_of)]


class MetricParameters(Described):
    """What is asked of a metric."""

    start: str | None = Field(None, alias="from", description="The first hour (UTC), such as 2013-01-05T14.")
    to: str | None = Field(None, description="The hour after the last one (UTC).")
    dimension: list[str] | None = Field(
        None,
        description="A dimension to keep. The others are rolled up. Without it, all are kept. An empty one keeps none.",
    )
    grain: Grain = Field(
        "window",
        description="The period that a row covers. `window`: an hour, or the window that the metric declares; `from` "
        "and `to` then select the windows that start between them. Days and months are in UTC.",
    )
    where: list[str] = Field(
        [],
        description="DIMENSION:VALUE, such as origin:JFK. `origin` alone means null. Several values of one dimension "
        "mean any of them.",
    )
    measure: list[str] | None = Field(None, description="A measure. Without it, all measures are given.")
    order: str = Field(
        "",
        description="Columns to sort by, separated by commas. A `-` before a column puts the largest first. Without "
        "it: the hour or window, then the dimensions.",
    )
    limit: int | None = Field(None, ge=1, description="The maximum number of rows on a page. Without it: 1,000.")
    page: int = Field(
        1,
        ge=1,
        le=2**31,
        description="The number of the page, from 1. `next` leads to the next page of the same snapshot.",
    )
    strict: bool = Field(False, description="Fail if the result includes missing, blocked or incomplete hours.")
    as_of: str | None = Field(
        None, description="Repeat an earlier answer, by its token or by a time such as 2026-03-02T10:00 (UTC)."
    )
    format: Format | None = Field(None, description="The format. Without it, the Accept header chooses.")
    integers: Literal["number", "text"] = Field(
        "number",
        description="`text`: 64-bit integers and decimals are strings in JSON, for clients whose numbers are doubles, "
        "such as browsers.",
    )
    waiting: bool = Field(False, description=ASKED)


class CellParameters(Described):
    """Which cell."""

    where: list[str] = Field(
        [],
        description="DIMENSION:VALUE, once for each dimension. `origin` alone means null. Other dimensions are "
        "rolled up.",
    )
    strict: bool = Field(False, description="Fail if the hour is missing, blocked or incomplete.")
    as_of: str | None = Field(
        None, description="Repeat an earlier answer, by its token or by a time such as 2026-03-02T10:00 (UTC)."
    )
    waiting: bool = Field(False, description=ASKED)


@routes.get("/project", response_model=ProjectAnswer)
async def project(request: Request, answering: TheAnswering) -> Response:
    """The sources and metrics of the project."""
    sql = answering.settings.sql and client_of(request).right == "admin"
    return await answering.answer(
        request, lambda connection: Body(json_bytes(_project(connection, sql)), MEDIA_TYPES["json"]), kind=f"sql-{sql}"
    )


@routes.get(
    "/metrics/{metric}",
    response_model=MetricAnswer,
    responses={200: {"content": {media_type: {} for media_type in MEDIA_TYPES.values()}}},
)
async def metric_rows(
    request: Request, answering: TheAnswering, metric: str, parameters: Annotated[MetricParameters, Query()]
) -> Response:
    """Rows of a metric: filtered, rolled up by merging states, sorted, and in pages. CSV and Arrow have the token, the
    states and the next page in their headers.
    """
    limit = min(DEFAULT_ROWS, answering.settings.rows) if parameters.limit is None else parameters.limit
    if limit > answering.settings.rows:
        raise UsageError(f"got limit {limit:,}, allowed are {answering.settings.rows:,} rows on a page (serve.rows)")
    question = MetricQuestion(
        hours=parse_hours(parameters.start, parameters.to),
        grain=parameters.grain,
        dimensions=None if parameters.dimension is None else [name for name in parameters.dimension if name],
        measures=parameters.measure,
        where=parse_where(parameters.where),
        order=parameters.order,
        limit=limit,
        page=parameters.page,
    )
    form = format_of(request.headers.get("accept", ""), parameters.format)
    offsets = await look_up(answering, waiting=parameters.waiting, as_of=parameters.as_of)

    def work(connection: Connection) -> Body:
        tables = find_tables(connection, metric)
        sql = metric_sql(connection, tables, question)
        states = states_in(connection, tables, question.hours, question.grain)
        _refuse(connection, states, parameters.strict)
        rows = fetch(connection.database, sql.query, sql.values, answering.settings.bytes)
        following = _next(request, connection.token, question.page) if rows.num_rows > question.limit else None
        return _body(
            connection,
            metric,
            rows.slice(0, question.limit),
            states,
            following,
            form,
            parameters.integers == "text",
            waiting_in(connection, f"FROM {identifier(metric)}", offsets),
        )

    if offsets is not None:
        return await answering.answer_once(request, work)
    return await answering.answer(request, work, parameters.as_of, form)


@routes.get("/metrics/{metric}/hours/{hour}", response_model=CellAnswer)
async def cell(
    request: Request, answering: TheAnswering, metric: str, hour: str, parameters: Annotated[CellParameters, Query()]
) -> Response:
    """The measures of one hour of a metric, for the given values of its dimensions."""
    moment, chosen = parse_hour(hour), parse_cell(parameters.where)
    offsets = await look_up(answering, waiting=parameters.waiting, as_of=parameters.as_of)

    def work(connection: Connection) -> CellAnswer:
        found = find_cell(connection, metric, moment, chosen)
        (state,) = states_in(connection, found.tables, HourRange.spanning([moment]))
        _refuse(connection, [state], parameters.strict)
        # Once, since everything below needs it.
        connection.database.execute(f"CREATE TEMP TABLE _hour AS FROM {metric}_states WHERE {found.condition({})}")
        if state.state != "missing":
            refuse_without_rows(connection, found, "_hour")
            if not connection.database.execute("FROM _hour LIMIT 1").fetchone():
                raise NotFoundError(f"no event of that hour counts for '{metric}'")
        return CellAnswer(
            metric=metric,
            hour=moment,
            state=state.state,
            dimensions=chosen,
            measures=finish_values(connection, found, found.of("_hour")),
            token=connection.token,
            report=_report(connection, found.tables, moment),
            waiting=waiting_in(connection, f"FROM {identifier(metric)}", offsets),
        )

    def once(connection: Connection) -> Body:
        answer = work(connection)
        return Body(json_bytes(answer), MEDIA_TYPES["json"], headers_of(answer.waiting))

    if offsets is not None:
        return await answering.answer_once(request, once)
    return await answering.report(request, work, parameters.as_of)


def _report(connection: Connection, tables: MetricTables, hour: datetime) -> str | None:
    """The address of the page of the hour's newest audit."""
    ((publication,),) = connection.database.execute(
        "SELECT max(publication) FROM quality WHERE metric = ? AND hour = ? AND origin <> 'person'",
        [tables.metric.name, hour],
    ).fetchall()
    if publication is None:
        return None
    page = report_site(connection.project) / page_path(publication, page_name(tables.source.name, tables.metric.name))
    return f"{report_address(connection.project, str(page))}#{anchor(hour)}" if page.is_file() else None


def _refuse(connection: Connection, states: list[HourState], strict: bool) -> None:
    """Raises UnreliableResultError, and UsageError where an old answer needs what is no longer kept."""
    if strict:
        refuse_weak(states, connection.missing_among(states))
    if connection.is_past and (gone := find_forgotten(connection.snapshot)):
        refuse_forgotten(states, gone)


def _next(request: Request, token: str, page: int) -> str:
    other = ("page", "as_of", "waiting")  # An earlier answer waits for nothing.
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in other]
    return f"{request.url.path}?{urlencode([*kept, ('page', page + 1), ('as_of', token)])}"


def _body(
    connection: Connection,
    metric: str,
    rows: pa.Table,
    states: list[HourState],
    following: str | None,
    form: Format,
    integers_as_text: bool,
    waiting: list[WaitingOf] | None,
) -> Body:
    counts: dict[str, int] = {}
    for one in states:
        counts[one.state] = counts.get(one.state, 0) + 1
    lacks = [words for one in connection.missing_among(states) for words in one.in_words()]
    about = {"metric": metric, "token": connection.token, "states": counts, "lacks": lacks, "waiting": waiting}
    headers = {
        "Hourline-Token": connection.token,
        "Hourline-States": ", ".join(f"{state}={count}" for state, count in counts.items()),
        **headers_of(waiting),
    }
    if following:
        headers["Link"] = f'<{following}>; rel="next"'
    match form:
        case "json":
            errors = connection.errors_of(f"FROM {identifier(metric)}", rows.column_names)
            head = json_bytes({**about, "columns": columns_of(connection.database, rows, errors)})[:-1]
            found = rows_json(connection.database, rows, integers_as_text=integers_as_text)
            content = head + b',"rows":' + found + b',"next":' + json_bytes(following) + b"}"
        case "csv":
            content = rows_csv(connection.database, rows)
        case "arrow":
            content = rows_arrow(
                rows,
                {
                    name: value if isinstance(value, str) else json_bytes(value).decode()
                    for name, value in about.items()
                },
            )
    return Body(content, MEDIA_TYPES[form], headers)


def _project(connection: Connection, sql: bool) -> ProjectAnswer:
    clocks = read_clocks(connection)
    return ProjectAnswer(
        project=connection.project.name,
        token=connection.token,
        sql=sql,
        sources=[
            SourceSummary(name=source.name, description=source.description, clock=clocks.get(source.name))
            for source in connection.project.sources.values()
        ],
        metrics=[_metric(connection, tables.metric.name) for tables in connection.served],
    )


def _metric(connection: Connection, name: str) -> MetricSummary:
    metric = find_tables(connection, name).metric
    types = column_types(connection.database, identifier(name))
    return MetricSummary(
        name=name,
        source=metric.source,
        description=connection.project.all_metrics[name].description,
        window=None if metric.window.is_hour else str(metric.window),
        sessions=metric.session is not None,
        dimensions=[Column(name=dimension, type=types[dimension]) for dimension in metric.dimensions],
        measures=[
            Column(
                name=measure,
                type=types[measure],
                description=str(declared),
                error=aggregate_of(declared).error or None,
            )
            for measure, declared in metric.measures.items()
        ],
    )
