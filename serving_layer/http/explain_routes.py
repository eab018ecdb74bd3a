"""Routes that explain a number: of an hour, and of a window."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.errors import UsageError
from hourline_core.model.hours import parse_hour, parse_window_time
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.error_responses import NotFoundError
from serving_layer.http.metric_query import check_where, parse_where, tables_of
from serving_layer.http.report_pages import with_addresses
from serving_layer.reports.lineage import Explanation, explain_number
from serving_layer.reports.windows import WindowExplanation, explain_window, require_group

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
    moment, where = parse_hour(hour), _parse_cell(parameters)

    def work(connection: Connection) -> Any:
        check_where(connection, tables_of(connection, metric), {name: [text] for name, text in where.items()})
        try:
            found = explain_number(connection, metric, moment, where)
        except UsageError as error:  # all that is left to be wrong: there is no such hour, or row
            raise NotFoundError(str(error)) from None
        return with_addresses(connection.project, found.model_dump())

    return await answering.report(request, work)


@routes.get("/explain/{metric}/windows/{start}", response_model=WindowExplanation)
async def get_window_explanation(
    request: Request, answering: TheAnswering, metric: str, start: str, parameters: Annotated[WhereParameters, Query()]
) -> Response:
    """Where the numbers of a window come from: the values and states of its hours. The window is the one that starts at
    the given time, or the session at that time.
    """
    moment, where = parse_window_time(start), _parse_cell(parameters)

    def work(connection: Connection) -> Any:
        tables = tables_of(connection, metric)
        check_where(connection, tables, {name: [text] for name, text in where.items()})
        require_group(tables.metric, where)
        try:
            return explain_window(connection, metric, moment, where)
        except UsageError as error:  # all that is left to be wrong: there is no such window, or row
            raise NotFoundError(str(error)) from None

    return await answering.report(request, work)


def _parse_cell(parameters: WhereParameters) -> dict[str, str | None]:
    """One value of each dimension. Raises UsageError."""
    where = parse_where(parameters.where)
    if twice := [name for name, values in where.items() if len(values) > 1]:
        raise UsageError(
            f"got dimension '{twice[0]}' twice; one value of each is allowed, "
            "and a dimension that is left out is rolled up"
        )
    return {name: values[0] for name, values in where.items()}
