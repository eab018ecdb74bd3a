"""Finds the events of a micro-batch that a class of a metric fails for. The metric does not count them."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.user_classes.measure_class import ADDRESS
from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.ledger.layout import QUARANTINE_SCHEMA
from hourline_core.model.scratch_columns import HOUR, OFFSET, PARTITION, PLACE, TOPIC, TOPIC_ID

_COPIED = {"topic_id": TOPIC_ID, "topic": TOPIC, "partition": PARTITION, "offset": OFFSET, PLACE: PLACE, "hour": HOUR}
"""By column of the quarantine table, that of the events."""
_TOLD = ("measure", "file", "message")


def split_off(metric: ProjectedMetric, events: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The ``events`` that no class of ``metric`` fails for, and rows of QUARANTINE_SCHEMA for the others, without their
    sequence. Each event is tried alone, so this is only done once a class has failed.
    """
    declared = metric.aggregation.metric
    counts = np.ones(events.num_rows, dtype=bool)
    for condition in metric.conditions:
        counts &= pc.fill_null(events[condition], False).to_numpy()
    places = np.flatnonzero(counts)
    some = events.take(pa.array(places))
    told: dict[int, tuple[str, str, str]] = {}
    for name, one in user_defined_of(declared).items():
        arguments = [some[column].combine_chunks() for column in metric.values[name][: -len(ADDRESS)]]
        for place, message in zip(places.tolist(), one.loaded.blame_events(arguments), strict=True):
            if message is not None:
                told.setdefault(place, (name, one.loaded.measure.file, message))
    kept = np.ones(events.num_rows, dtype=bool)
    kept[list(told)] = False
    return events.filter(pa.array(kept)), _rows(metric, events, told)


def _rows(metric: ProjectedMetric, events: pa.Table, told: Mapping[int, tuple[str, str, str]]) -> pa.Table:
    """A row for each of ``told``: the place of an event, and the measure, the file and the message."""
    aggregation, places = metric.aggregation, sorted(told)
    failing = events.take(pa.array(places, pa.int64()))
    columns = {name: failing[of] for name, of in _COPIED.items()}
    columns |= {
        name: pa.repeat(pa.scalar(value), len(places))
        for name, value in (("metric", aggregation.metric.name), ("declaration", aggregation.declaration))
    }
    columns |= {
        name: pa.array([told[place][number] for place in places], pa.string()) for number, name in enumerate(_TOLD)
    }
    return pa.table({name: columns[name] for name in QUARANTINE_SCHEMA.names if name != "sequence"})
