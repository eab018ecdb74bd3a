"""How an error becomes a status of gRPC with one sentence: by the status that it has over HTTP."""

import logging
from collections.abc import Mapping

import grpc
from starlette.exceptions import HTTPException

from hourline_core.errors import HourlineError, ResourceError
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings
from serving_layer.flight.messages import MalformedError
from serving_layer.http.error_responses import FAULT, status_of

log = logging.getLogger("hourline.flight")

_LONGEST = 1_000
"""The maximum number of characters of a sentence. gRPC sends it in a header."""

_CODES: Mapping[int, grpc.StatusCode] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.UNAVAILABLE,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def explain(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The status and the sentence of an error. What is no mistake of the client's is logged."""
    match error:
        case MalformedError():
            status, sentence = 400, str(error)
        case HTTPException():
            status, sentence = error.status_code, str(error.detail)
        case HourlineError():
            status, sentence = status_of(error), str(error)
        case _:
            told = explain_fault(error, Surroundings())
            status, sentence = (503, str(told)) if isinstance(told, ResourceError) else (500, FAULT)
            log.error("a call has failed", exc_info=error)
    if status in (500, 503) and isinstance(error, HourlineError):
        log.error("%s", error)
    sentence = " ".join(sentence.split())
    cut = sentence if len(sentence) <= _LONGEST else sentence[:_LONGEST] + "…"
    return _CODES.get(status, grpc.StatusCode.INTERNAL), cut
