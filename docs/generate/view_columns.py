"""What each column of the views means; they have no schema but their SQL."""

from collections.abc import Mapping

from hourline_core.ledger.columns import Columns
from hourline_core.ledger.findings import FINDING_COLUMNS
from hourline_core.ledger.layout import DRIFT_COLUMNS, EVENT_COLUMNS, QUALITY_COLUMNS


def _as_in(columns: Columns, *names: str) -> dict[str, str]:
    """The meanings of columns that a table has, too."""
    return {name: columns[name].meaning for name in names}


VIEW_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "hours": {
        "kind": "`source` or `metric`.",
        "name": "The name of the source or metric.",
        "hour": "The hour.",
        "state": "`final`, `revised`, `provisional`, `stale`, `incomplete`, `blocked` or `missing`; of a source, the "
        "weakest state of its metrics. Null: the source has no metric.",
        "events": "The number of accepted events of the source in the hour.",
        "late": "The number of them that arrived after the hour had closed.",
        "closed": "Whether the hour has closed.",
    },
    "long_silences": {
        "source": "The name of the source.",
        "silence_start": "The first hour of the silence.",
        "silence_end": "The hour after its last one.",
        "hours": "The number of its hours.",
        "state": "`final`, or `incomplete` if records of it may be lost, and nobody has confirmed that.",
    },
    "windows": {
        "source": "The name of the source.",
        "metric": "The name of the metric.",
        "window_start": "The start of the window.",
        "window_end": "The end of the window, exclusive.",
        "state": "The weakest state of its hours; at most `provisional` until the source's clock has passed its end.",
        "weakest_hour": "The first of its known hours in the weakest state of them. Null: all of them are final.",
        "closed": "Whether the window has closed: the clock has passed its end by the grace.",
    },
    "late_events": {
        "source": "The name of the source.",
        **_as_in(EVENT_COLUMNS, "hour", "event_time", "topic", "partition", "offset"),
        "late_seconds": "How far the event was behind its source's clock, in seconds.",
        "arrived": "When the micro-batch that read it began.",
        "sequence": "The number of that micro-batch.",
    },
    "drift": {
        **_as_in(DRIFT_COLUMNS, "hour", "source", "metric", "measure", "at_close", "provisional", "final"),
        "cause": "`late`, `duplicate`, `declaration`, `lookup`, `taken_back`, `rounding` or `unexplained`. Null: "
        "nothing changed.",
        "amount": "The change by this cause, over all dimensions. Null: the measure is no number.",
        "cells": "The number of groups that changed.",
        **_as_in(DRIFT_COLUMNS, "cutoff", "published"),
    },
    "publications": {
        "publication": "The number of the publication. Null: it was published before drift was recorded.",
        **_as_in(DRIFT_COLUMNS, "published", "source", "metric", "hour", "cutoff"),
        "current": "Whether it is the publication that counts.",
    },
    "findings": _as_in(FINDING_COLUMNS, *FINDING_COLUMNS)
    | {"opened": "When a run of the batch layer found it first. Null: none has run since."},
    "quality": _as_in(QUALITY_COLUMNS, *(name for name in QUALITY_COLUMNS if name != "declaration")),
}
"""By view, and by column. ``docs.generate.tables`` fails if a column is missing here, or no longer there."""
