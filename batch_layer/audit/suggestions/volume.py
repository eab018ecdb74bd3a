"""Suggests bounds of a source's volume."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from batch_layer.audit.volume import Arrivals
from hourline_core.model import History, Source, Volume

_MOST_DUPLICATES = 0.4
"""The greatest limit of the share of duplicates. Of an hour that is sent twice, half are duplicates."""


def suggest_volume(
    source: Source,
    arrivals: Arrivals,
    duplicates: Mapping[datetime, int],
    hours: Sequence[datetime],
    history: History | None,
) -> tuple[Volume, str]:
    """The declared volume with bounds of the number of events in ``hours``, and of the share of ``duplicates`` if
    events have an id; and what was seen, in words. ``history`` is the comparison with past days, if there is one.
    """
    counts = [arrivals.events.get(hour, 0) for hour in hours]
    least, most = min(counts), max(counts)
    changes: dict[str, object] = {"min": max(1, least // 2) if least else None, "max": _round_up(1.5 * most)}
    told = f"{least:,} to {most:,} events in an hour"
    if source.remembers_ids:
        share = max(
            (repeated / (repeated + count))
            for hour, count in zip(hours, counts, strict=True)
            if (repeated := duplicates.get(hour, 0)) or count
        )
        told += f", at most {100 * share:.1f} % duplicates"
        if (limit := math.ceil(100 * (1.5 * share + 0.02)) / 100) <= _MOST_DUPLICATES:
            changes["duplicates"] = limit
    if history is not None:
        changes["history"] = history
    return source.volume.model_copy(update=changes), told


def _round_up(value: float) -> int:
    """With two digits."""
    unit: int = 10 ** max(0, math.floor(math.log10(max(value, 1))) - 1)
    return math.ceil(value / unit) * unit
