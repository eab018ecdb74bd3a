"""Answers errors over HTTP: a status, and JSON with one sentence.

400  UsageError              a wrong parameter, with what is near or allowed
401                          no token, or a wrong one
403                          a token without the scope; a page of another site
404  NotFoundError           no such source, metric, hour, window or row
409  UnreliableResultError   `strict`, and the hours are not to be relied on
413  TooLargeError           the answer, or the body of the request
429  TooManyError            try again in a moment
500                          a fault of Hourline's; the log has its stack trace
503  TableError              the tables cannot be read
503  BrokerError             Kafka must be asked, and does not answer
503  SourceError             the Kafka at the address is not the one that was read
503  ResourceError           the machine's memory or disk is used up
504  TimedOutError           the query was stopped at its time limit
504  NotCountedYetError      what the answer is to count was not counted in time
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from hourline_core.errors import (
    BrokerError,
    HourlineError,
    NotCountedYetError,
    ResourceError,
    SourceError,
    TableError,
    UnreliableResultError,
    UsageError,
    did_you_mean,
)
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings
from serving_layer.described import Described
from serving_layer.reports.cell import NotFoundError

log = logging.getLogger("hourline.http")

RETRY_SECONDS = 1
FAULT = "that is a fault of Hourline's, not yours; the server's log has more of it"


class TooLargeError(HourlineError):
    """An answer or a request larger than the limit."""


class TooManyError(HourlineError):
    """Too many requests run at the moment. The client should send this one again later."""

    retryable = True


class TimedOutError(HourlineError):
    """A query that was stopped at its time limit."""


_STATUS: Mapping[type[HourlineError], int] = {
    NotFoundError: 404,
    UsageError: 400,
    UnreliableResultError: 409,
    TooLargeError: 413,
    TooManyError: 429,
    TableError: 503,
    ResourceError: 503,
    BrokerError: 503,
    SourceError: 503,
    TimedOutError: 504,
    NotCountedYetError: 504,
}


class Problem(Described):
    """Why a request was refused or has failed."""

    error: str
    """The reason, as one sentence."""


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "A mistake in a parameter",
        401: "No token, or a wrong one",
        403: "The token is not allowed to do this, or a page of another site has asked",
        404: "No such metric, source, hour or row",
        409: "With `strict`: the result would include missing, blocked or incomplete hours",
        413: "The answer, or the body of the request, is too large",
        429: "Too many requests of this client are open. Try again in `Retry-After` seconds",
        503: "The tables cannot be read, the machine's memory or disk is used up, or Kafka must be asked and does not "
        "answer",
        504: "The query was stopped at its time limit, or what `Hourline-At-Least` names was not counted in time. Then "
        "try again in `Retry-After` seconds",
    }.items()
}
"""The error responses that routes may give, for OpenAPI."""


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that is refused or has failed."""
    return Response(json.dumps({"error": sentence}), status, headers, "application/json")


def install_problems(app: FastAPI) -> None:
    """Make ``app`` report every error in that form."""
    app.add_exception_handler(HourlineError, _of_hourline)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(Exception, _of_fault)


def status_of(error: HourlineError) -> int:
    """The status of a Hourline error."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def to_response(error: HourlineError) -> Response:
    """The response to a Hourline error."""
    status = status_of(error)
    if status in (500, 503):
        log.error("%s", error)
    again = isinstance(error, TooManyError | NotCountedYetError)
    return problem(status, str(error), {"Retry-After": str(RETRY_SECONDS)} if again else None)


async def _of_hourline(request: Request, error: Exception) -> Response:
    assert isinstance(error, HourlineError)
    return to_response(error)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = str(error.detail)
    if error.status_code == 404 and sentence == "Not Found":
        sentence = f"there is nothing at {request.url.path}; /api/v1/openapi.json lists what there is"
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        sentence = f"{request.method} is not answered at {request.url.path}; allowed is {allowed}"
    return problem(error.status_code, sentence, error.headers)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    sentences = [
        _sentence(one["type"], [str(part) for part in one["loc"]], one["msg"], one.get("input"))
        for one in error.errors()
    ]
    if in_body := [one for one in error.errors() if one["loc"][0] == "body"]:
        if "json" not in request.headers.get("content-type", ""):
            return problem(415, "the body is to be JSON; send it with the header `Content-Type: application/json`")
        if in_body[0]["type"] == "json_invalid":
            return problem(400, f"the body is no JSON: {in_body[0]['ctx']['error']}")
    return problem(422 if in_body else 400, "; ".join(sentences))


def _sentence(kind: str, place: list[str], message: str, got: object) -> str:
    name = place[-1] if len(place) > 1 else place[0]
    if kind == "missing":
        return f"{name} is missing"
    return f"{name}: {message[:1].lower()}{message[1:]}; got {_quote(got)}"


def _quote(got: object) -> str:
    text = str(got)
    return f"'{text if len(text) <= 80 else text[:77] + '...'}'"


def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of all routes. Raises UsageError for an unknown parameter, or one that is given twice and takes
    one value.
    """
    known = _parameters(request)
    for name in request.query_params:
        if name not in known:
            raise UsageError(f"there is no parameter '{name}'{did_you_mean(name, known)}")
        if "array" not in str(known[name]) and len(request.query_params.getlist(name)) > 1:
            raise UsageError(f"got {name} twice; it has one value")


def _parameters(request: Request) -> dict[str, object]:
    """By name, the schemas of the query's parameters."""
    operations = request.app.openapi()["paths"].get(request.scope["route"].path, {})
    return {
        one["name"]: one["schema"]
        for operation in operations.values()
        for one in operation.get("parameters", [])
        if one["in"] == "query"
    }


async def _of_fault(request: Request, error: Exception) -> Response:
    told = explain_fault(error, Surroundings())
    response = to_response(told) if isinstance(told, ResourceError) else problem(500, FAULT)
    # Starlette passes the error on to the server, which logs it with its stack trace and closes the connection.
    response.headers["Connection"] = "close"
    return response
