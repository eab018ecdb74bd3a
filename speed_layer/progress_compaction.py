"""Progress has a row for each micro-batch, one a second; when no answer that may be repeated needs them any more, those
of an hour become one.

Nothing that is told of them changes but for times and sequences within that hour: which hours have how many events,
which came late, which offsets were read, from which sequence on a metric was written.
"""

from bisect import bisect_left
from collections.abc import Collection
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.ledger.layout import PROGRESS_SCHEMA
from hourline_core.model.windows import HOURLY
from hourline_core.storage import tables

_COMPACTED = "hourline-progress-compacted"
"""The application id under which progress records up to which sequence its rows have been summed up."""
_AT_ONCE = 50_000
_COUNTS = ("records", "accepted", "rejected", "duplicates", "tombstones")

Row = dict[str, Any]


def compact_progress(progress: DeltaTable, before: datetime, cutoffs: Collection[int], dry_run: bool = False) -> int:
    """Put one row in the place of those of micro-batches that finished in the same hour, ``before`` that (UTC); returns
    by how many there are less.

    ``cutoffs`` are those of all hours that were recomputed, or blocked: what one has counted, and what came after it,
    stay apart. Raises ConflictError when another process writes to the table.
    """
    done = progress.transaction_version(_COMPACTED) or 0
    old = progress.to_pyarrow_table(
        columns=["sequence"], filters=[("sequence", ">", done), ("finished", "<", HOURLY.assign(before))]
    )
    sequences = sorted(old["sequence"].to_pylist())[:_AT_ONCE]
    if not sequences:
        return 0
    last = sequences[-1]
    # Clocks may go back: whatever lies in between goes with them.
    rows = (
        progress.to_pyarrow_table(filters=[("sequence", ">", done), ("sequence", "<=", last)])
        .sort_by("sequence")
        .to_pylist()
    )
    summed: list[Row] = []
    ends = sorted(set(cutoffs))
    for row in rows:
        apart = not summed or bisect_left(ends, summed[-1]["sequence"]) < bisect_left(ends, row["sequence"])
        if not apart and _belong_together(summed[-1], row):
            summed[-1] = _sum(summed[-1], row)
        else:
            summed.append(row)
    if not dry_run:
        told = {"summed up": f"{len(rows)} rows into {len(summed)}"}
        predicate = f"sequence > {done} AND sequence <= {last}"
        tables.overwrite(
            progress,
            pa.Table.from_pylist(summed, PROGRESS_SCHEMA),
            predicate,
            told,
            writers=[_COMPACTED],
            sequence=last,
        )
    return len(rows) - len(summed)


def _belong_together(one: Row, next_one: Row) -> bool:
    """Whether nobody asks for them apart: late events are told by micro-batch, a reset by its own row, and a new metric
    begins with its first one.
    """
    return (
        HOURLY.assign(one["finished"]) == HOURLY.assign(next_one["finished"])
        and all(one[name] == next_one[name] for name in ("topic_id", "topic", "metrics"))
        and one["position"] is None is next_one["position"]
        and not any(arrived["late"] for row in (one, next_one) for arrived in row["hours"] or ())
    )


def _sum(one: Row, next_one: Row) -> Row:
    events: dict[datetime, int] = {}
    read: dict[int, tuple[int, int]] = {}
    for row in (one, next_one):
        for arrived in row["hours"] or ():
            events[arrived["hour"]] = events.get(arrived["hour"], 0) + arrived["events"]
        for part in row["offsets"] or ():
            first, last = read.get(part["partition"], (part["first"], part["last"]))
            read[part["partition"]] = min(first, part["first"]), max(last, part["last"])
    return {
        **next_one,
        **{name: one[name] + next_one[name] for name in _COUNTS},
        "hours": [{"hour": hour, "events": count, "late": 0} for hour, count in events.items()],
        "offsets": [
            {"partition": partition, "first": first, "last": last} for partition, (first, last) in read.items()
        ],
        "clock": next_one["clock"] or one["clock"],
        "started": one["started"],
    }
