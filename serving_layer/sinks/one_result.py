"""A changed result as a webhook or a command gets it."""

import json

from hourline_core.model import Sink
from serving_layer.sinks.result import Result


def one_result_json(sink: Sink, result: Result, token: str, revision: int) -> bytes:
    """A JSON object: ``sink``, ``metric``, ``key`` (the window and the dimensions), ``value`` (null: the result is
    gone), ``token`` and ``revision``.
    """
    head = json.dumps({"sink": sink.name, "metric": sink.metric})
    rest = json.dumps({"token": token, "revision": revision})
    return f'{head[:-1]}, "key": {result.key}, "value": {result.value or "null"}, {rest[1:]}'.encode()
