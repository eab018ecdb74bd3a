"""The headers of records on their way from Spark to a task."""

import base64
import json
from functools import lru_cache

import pyarrow as pa

_HEADERS = pa.map_(pa.string(), pa.binary())


def headers_of(texts: pa.Array) -> pa.Array:
    """HEADERS (map<string, binary>) from HEADERS_TEXT. Of several headers with one name, the last counts."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _HEADERS)
    return pa.array([None if text is None else _read(text) for text in texts.to_pylist()], _HEADERS)


@lru_cache(maxsize=1000)  # Often, all records have the same ones.
def _read(text: str) -> list[tuple[str, bytes | None]]:
    headers = {one["key"]: one.get("value") for one in json.loads(text)}
    return [(name, None if value is None else base64.b64decode(value)) for name, value in headers.items()]
