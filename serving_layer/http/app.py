"""The application: access control, routes and error responses, put together."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI, Security
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from serving_layer.http import (
    change_routes,
    changed_rows_routes,
    explain_routes,
    hour_routes,
    metric_routes,
    sql_routes,
    window_routes,
)
from serving_layer.http.access import Guard, Tokens
from serving_layer.http.answering import Answering, start_answering
from serving_layer.http.at_least import Waits, wait_until_counted
from serving_layer.http.error_responses import PROBLEMS, install_problems, refuse_unknown_parameters
from serving_layer.http.formats import json_bytes
from serving_layer.http.free_sql import FreeSql, free_sql_of
from serving_layer.http.heads import HeadAsGet
from serving_layer.http.limits import Limited
from serving_layer.http.page_routes import page_routes
from serving_layer.http.report_pages import report_routes
from serving_layer.http.tls import tls_files
from serving_layer.snapshots import Renewing, Snapshots

if TYPE_CHECKING:
    from serving_layer.flight.endpoint import Endpoint


def create_app(
    project: Project,
    clock: Clock = wall_clock,
    environ: Mapping[str, str] = os.environ,
    flight_address: str | None = None,
) -> FastAPI:
    """The application that serves one project, on its tables as they are and as they change. With ``flight_address``,
    such as ``127.0.0.1:31337``, it also speaks Arrow Flight SQL there. Raises SetupError, TableError.
    """
    tokens = Tokens.of(project, environ)
    endpoint_of = _import_flight() if flight_address else None
    snapshots = Snapshots(project, clock)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.loop = asyncio.get_running_loop()
        tell = partial(app.state.loop.call_soon_threadsafe, answering.listeners.tell)
        renewing = Renewing(snapshots, tell)
        renewing.start()
        try:
            if flight and flight_address:
                await flight.start(flight_address, tls_files(project))
            yield
        finally:
            answering.close()
            if flight:
                await flight.stop()
            await run_in_threadpool(renewing.stop)
            snapshots.close()
            if app.state.free_sql:
                app.state.free_sql.close()

    app = FastAPI(
        title=f"Hourline: {project.name}",
        description="Hourly results now, exact results after the hour.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # Their JavaScript would come from another host.
        redoc_url=None,
        lifespan=lifespan,
    )
    answering = start_answering(app, project, snapshots)
    app.state.waits = Waits(snapshots)
    app.state.free_sql = free_sql_of(project.settings.serve)
    app.state.flight = flight = endpoint_of and endpoint_of(answering, app.state.waits, app.state.free_sql, tokens)
    install_problems(app)
    # For OpenAPI alone. The Guard asks for the token.
    bearer = HTTPBearer(
        auto_error=False, description="Where the server has tokens; or the token as password of Basic authentication."
    )
    always, waits = [Depends(refuse_unknown_parameters), Security(bearer)], Depends(wait_until_counted)
    for routes, dependencies in (
        (metric_routes.routes, [*always, waits]),
        (window_routes.routes, [*always, waits]),
        (hour_routes.routes, [*always, waits]),
        (explain_routes.routes, [*always, waits]),
        (changed_rows_routes.routes, [*always, waits]),
        (change_routes.routes, always),
        (sql_routes.routes, always),  # It waits for what its query names.
    ):
        app.include_router(routes, dependencies=dependencies, responses=PROBLEMS)
    report_routes(app, project)
    page_routes(app)

    @app.get("/health", include_in_schema=False)
    async def health() -> Response:
        """Whether it answers from the current tables."""
        healthy = not snapshots.failing
        return Response(
            json_bytes({"status": "ok" if healthy else "failing"}),
            200 if healthy else 503,
            media_type="application/json",
        )

    # Created before the first requests, which look parameters up in it. Several at once would each get half of it.
    app.openapi()

    app.add_middleware(Limited)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Guard, tokens=tokens)  # The last one added is called first.
    return app


def _import_flight() -> "Callable[[Answering, Waits, FreeSql, Tokens], Endpoint]":
    """What makes the endpoint of Arrow Flight SQL. Raises SetupError if it is not installed."""
    try:
        from serving_layer.flight.endpoint import endpoint_of
    except ModuleNotFoundError as error:
        raise SetupError(
            f"serve.flight_port is set, but {error.name} is not installed: `pip install 'hourline[flight]'`"
        ) from None
    return endpoint_of
