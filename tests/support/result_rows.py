"""The results of a metric by plain Python, as a reader of changes keeps them."""

from datetime import timedelta
from typing import Any

import serving_layer
from hourline_core.model import BatchSettings, Settings

KEPT = Settings(batch=BatchSettings(answers_kept=timedelta(days=20_000)))
"""What is kept goes by the wall clock, and these visits arrived in 2024."""

Rows = dict[tuple[Any, ...], dict[str, str]]
"""By window and dimensions, the measures as text."""


def rows_of(connection: serving_layer.Connection, name: str) -> Rows:
    """The rows of a metric, by plain Python."""
    metric = connection.project.all_metrics[name]
    columns = [*metric.dimensions, *metric.measures]
    texts = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
    window = "hour, hour + INTERVAL 1 HOUR" if metric.window.is_hour else "window_start, window_end"
    found: Rows = {}
    for start, end, *values in connection.sql(f"SELECT {window}, {texts} FROM {name}").fetchall():
        key = (start, end, *values[: len(metric.dimensions)])
        assert key not in found
        found[key] = dict(zip(metric.measures, values[len(metric.dimensions) :], strict=True))
    return found
