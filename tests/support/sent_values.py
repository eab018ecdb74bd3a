"""What a sink should send, by plain Python over the rows of the view."""

import base64
import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import serving_layer
from hourline_core.model.hours import iso_text

Newest = dict[str, dict[str, Any]]
"""By key, the newest value without token and revision."""


def view(connection: serving_layer.Connection, name: str) -> dict[tuple[datetime, datetime], Newest]:
    """The rows of the view, by window, as a sink sends them."""
    metric = connection.project.all_metrics[name]
    found: dict[tuple[datetime, datetime], Newest] = {}
    for row in connection.sql(f"FROM {name}").to_arrow_table().to_pylist(maps_as_pydicts="strict"):
        start = row["hour"] if metric.window.is_hour else row["window_start"]
        end = start + timedelta(hours=1) if metric.window.is_hour else row["window_end"]
        key = {"window_start": start, "window_end": end} | {one: row[one] for one in metric.dimensions}
        values = {one: row[one] for one in metric.measures} | {"state": row["state"]}
        found.setdefault((start, end), {})[key_text(as_sent(key))] = as_sent(values)
    return found


def key_text(key: dict[str, Any]) -> str:
    """A key by which the same results are found, whatever spaces their JSON has."""
    return json.dumps(key, separators=(",", ":"), default=str)


def as_sent(value: Any) -> Any:
    """``value`` as JSON has it. Numbers are decimals, to be compared with all their digits."""
    sent = value
    match value:
        case dict():
            sent = {name: as_sent(one) for name, one in value.items()}
        case list():
            sent = [as_sent(one) for one in value]
        case float():
            sent = Decimal(repr(value)).normalize() if math.isfinite(value) else None
        case int() | Decimal() if not isinstance(value, bool):
            sent = Decimal(value).normalize()
        case bytes():
            sent = base64.b64encode(value).decode()
        case datetime():
            sent = iso_text(value) if not value.microsecond else f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
        case date():
            sent = value.isoformat()
    return sent
