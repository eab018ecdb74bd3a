"""Routes that explain a number: of an hour, and of a window."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.model.hours import parse_hour, parse_window_time
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.metric_query import parse_cell
from serving_layer.http.report_pages import with_addresses
from serving_layer.reports.lineage import Explanation, explain_number
from serving_layer.reports.windows import WindowExplanation, explain_window

routes = APIRouter(prefix="/api/v1", tags=["hours"])

TheAnswering = Annotated[Answering, Depends(answering_of)]


class WhereParameters(Described):
    """Which part of an hour or window."""

    where: list[str] = Field(
        [],
        description="DIMENSION:VALUE, once for each dimension. `origin` alone means null. Other dimensions are "
        "rolled up.",
    )


@routes.get("/explain/{metric}/{hour}", response_model=Explanation)
async def get_explanation(
    request: Request, answering: TheAnswering, metric: str, hour: str, parameters: Annotated[WhereParameters, Query()]
) -> Response:
    """Where a number comes from: its declaration, events, versions and audit, and every value that was published for
    it.
    """
    moment, where = parse_hour(hour), parse_cell(parameters.where)

    def work(connection: Connection) -> Any:
        found = explain_number(connection, metric, moment, where)
        return with_addresses(connection.project, found.model_dump())

    return await answering.report(request, work)


@routes.get("/explain/{metric}/windows/{start}", response_model=WindowExplanation)
async def get_window_explanation(
    request: Request, answering: TheAnswering, metric: str, start: str, parameters: Annotated[WhereParameters, Query()]
) -> Response:
    """Where the numbers of a window come from: the values and states of its hours. The window is the one that starts at
    the given time, or the session at that time.
    """
    moment, where = parse_window_time(start), parse_cell(parameters.where)

    def work(connection: Connection) -> WindowExplanation:
        return explain_window(connection, metric, moment, where)

    return await answering.report(request, work)
