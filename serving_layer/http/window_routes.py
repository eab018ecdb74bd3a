"""The route that lists the windows of a metric with their states."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.errors import UsageError
from hourline_core.model.hour_state import HourStateName
from hourline_core.sql.literals import literal
from hourline_core.sql.session_windows import Starts, listed_sessions_sql, longest_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.answering import Answering, answering_of
from serving_layer.http.formats import fetch, json_bytes, rows_json
from serving_layer.http.metric_query import parse_hours
from serving_layer.reports.cell import find_tables

routes = APIRouter(prefix="/api/v1", tags=["metrics"])


class WindowOf(Described):
    """One window of a metric."""

    window_start: datetime
    """The start of the window (UTC)."""
    window_end: datetime
    """The end of the window (UTC, exclusive)."""
    state: HourStateName
    """The weakest state of its hours; at most `provisional` until the source's clock has passed its end."""
    weakest_hour: datetime | None
    """The first of its known hours in the weakest state of them. Null: all of them are final."""
    closed: bool
    """Whether the window has closed."""


class WindowsAnswer(Described):
    """Windows with their states."""

    token: str
    """The token of the snapshot."""
    metric: str
    """The name of the metric."""
    windows: list[WindowOf]
    """The windows, the newest first."""


class WindowsParameters(Described):
    """Which windows."""

    start: str | None = Field(
        None, alias="from", description="An hour (UTC), such as 2013-01-05T14. Windows that end by then are left out."
    )
    to: str | None = Field(None, description="An hour (UTC). Windows that start then, or later, are left out.")
    limit: int = Field(1_000, ge=1, le=10_000, description="The maximum number of windows.")


@routes.get("/metrics/{metric}/windows", response_model=WindowsAnswer)
async def windows(
    request: Request,
    answering: Annotated[Answering, Depends(answering_of)],
    metric: str,
    parameters: Annotated[WindowsParameters, Query()],
) -> Response:
    """The windows of a metric that share time with a range, with their states."""
    chosen = parse_hours(parameters.start, parameters.to)

    def work(connection: Connection) -> bytes:
        tables = find_tables(connection, metric)
        if tables.metric.window.is_hour:
            raise UsageError(f"metric '{metric}' has no windows besides hours; ask for /api/v1/hours?metric={metric}")
        listed = f"hourline.windows_{tables.name}"
        if tables.metric.session:
            first = f"{literal(chosen.start)} - {longest_sql(tables)}"
            listed = f"({listed_sessions_sql(tables, Starts.between([first], [literal(chosen.end)]))})"
        query = f"""
            SELECT window_start, window_end, state, weakest_hour, closed FROM {listed}
            WHERE window_end > ? AND window_start < ? ORDER BY window_start DESC LIMIT ?"""
        values = [chosen.start, chosen.end, parameters.limit]
        found = fetch(connection.database, query, values, answering.settings.bytes)
        head = json_bytes({"token": connection.token, "metric": metric})[:-1]
        return head + b',"windows":' + rows_json(connection.database, found) + b"}"

    return await answering.report(request, work)
