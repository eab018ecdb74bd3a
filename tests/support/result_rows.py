"""The results of a metric by plain Python, as a reader of changes keeps them."""

import math
from datetime import timedelta
from typing import Any

import serving_layer
from hourline_core.model import BatchSettings, Settings

KEPT = Settings(batch=BatchSettings(answers_kept=timedelta(days=20_000)))
"""What is kept goes by the wall clock, and these visits arrived in 2024."""

Rows = dict[tuple[Any, ...], dict[str, str | None]]
"""By window and dimensions, the measures as text."""
Answer = dict[str, Rows]
"""By metric, its rows."""


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


def answer_of(connection: serving_layer.Connection) -> Answer:
    """The rows of all metrics."""
    return {name: rows_of(connection, name) for name in connection.project.all_metrics}


def apply_changes(changes: list[dict[str, Any]], answer: Answer) -> Answer:
    """What a reader of the feed makes of its copy. It checks that nothing is told for nothing."""
    copy = {metric: {key: dict(values) for key, values in of.items()} for metric, of in answer.items()}
    for one in changes:
        of = copy[one["metric"]]
        window = (one["window_start"], one["window_end"])
        if one["change"] == "replace":
            for key in [key for key in of if window in ((None, None), key[:2])]:
                del of[key]
            continue
        key = (*window, *dict(one["dimensions"]).values())
        match one["change"]:
            case "insert":
                assert one["before"] is None
                of.setdefault(key, {})[one["measure"]] = one["after"]
            case "update":
                assert is_same(of[key][one["measure"]], one["before"])
                assert one["before"] != one["after"]
                of[key][one["measure"]] = one["after"]
            case "delete":
                assert one["after"] is None
                assert is_same(of[key].pop(one["measure"]), one["before"])
                if not of[key]:
                    del of[key]
        assert one["causes"]
    return copy


def differences(got: Answer, want: Answer) -> list[tuple[Any, ...]]:
    """The values in which two answers differ: metric, window and dimensions, measure, and both as text."""
    ours, theirs = _flat(got), _flat(want)
    return [
        (*cell, ours.get(cell, "no row"), theirs.get(cell, "no row"))
        for cell in sorted(ours.keys() | theirs.keys(), key=str)
        if cell not in ours or cell not in theirs or not is_same(ours[cell], theirs[cell])
    ]


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two values as text are equal. Doubles may differ by 1e-9, since each read adds in an order of its own."""
    if one == other or one is None or other is None:
        return one == other
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-6)
    except ValueError:
        return False


def _flat(answer: Answer) -> dict[tuple[Any, ...], str | None]:
    return {
        (metric, *key, measure): value
        for metric, rows in answer.items()
        for key, values in rows.items()
        for measure, value in values.items()
    }
