"""Reads from progress how far a topic of a source, or a file, was read: the offsets read, where reading goes on, and
the offsets that resets have skipped.

Reading is contiguous between two resets. So what was read is one stretch of each partition per reset, whatever the
number of micro-batches. Offsets in it without a record (transaction markers, compacted ones) count as read.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FILE = "file:"
"""The prefix of the topic id of a file, whose rows are its offsets. Other topic ids are Kafka's."""

ARRIVED_FILE = f"{FILE}arrived:"
"""The prefix of the topic id of a file that a source reads as it arrives. Other files are imported history."""

ARRIVALS = f"{FILE}arrived"
"""The topic id of the partition whose clock all files move that arrive at a source."""

Range = tuple[int, int]
"""Offsets from the first up to the second, which is not included."""


@dataclass(frozen=True)
class Reading:
    """The read offsets of one topic id, by partition."""

    next_offsets: dict[int, int]
    """The offset to go on at. A partition that is absent was never read, and begins at its earliest offset."""
    read: dict[int, list[Range]]
    """The offsets that were read, in order and without overlaps."""
    skipped: dict[int, list[Range]]
    """The offsets that a reset has skipped and nothing has read since, in order and without overlaps."""

    def deleted(self, partition: int, earliest: int) -> Range | None:
        """The span of the offsets that were to be read next, were not read before, and are gone: Kafka begins at
        ``earliest``. None: there are none.
        """
        ahead = [(self.next_offsets.get(partition, earliest), earliest)]
        left = without(ahead, self.read.get(partition, []))
        return (left[0][0], left[-1][1]) if left else None

    def end(self, partition: int) -> int | None:
        """One past the highest offset read. None: nothing was."""
        return self.read[partition][-1][1] if self.read.get(partition) else None


def reading_of(progress: pa.Table, topic_id: str | None) -> Reading:
    """How far ``topic_id`` has been read. ``progress`` are rows of the source's progress (sequence, topic_id,
    offsets, position).
    """
    rows = progress.filter(pc.equal(progress["topic_id"], pa.scalar(topic_id, pa.string())))
    resets = rows.filter(pc.is_valid(rows["position"])).select(["sequence", "position"]).sort_by("sequence").to_pylist()
    positions: list[dict[int, int]] = [
        {},
        *({p["partition"]: p["offset"] for p in reset["position"]} for reset in resets),
    ]
    jumped: dict[int, list[Range]] = {}
    for entry in (entry for reset in resets for entry in reset["position"]):
        jumped.setdefault(entry["partition"], []).append((entry["unread"], entry["offset"]))

    read: dict[int, list[Range]] = {}
    following = dict(positions[-1])
    for stretch in _stretches(rows, [reset["sequence"] for reset in resets]):
        partition, end = stretch["partition"], stretch["last_max"] + 1
        read.setdefault(partition, []).append((positions[stretch["stretch"]].get(partition, stretch["first_min"]), end))
        if stretch["stretch"] == len(resets):
            following[partition] = max(following.get(partition, 0), end)
    read = {partition: merge_ranges(ranges) for partition, ranges in read.items()}
    return Reading(
        following, read, {partition: without(ranges, read.get(partition, [])) for partition, ranges in jumped.items()}
    )


def merge_ranges(ranges: list[Range]) -> list[Range]:
    """The same offsets, in order, without overlaps and empty ranges."""
    found: list[Range] = []
    for first, end in sorted(one for one in ranges if one[0] < one[1]):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def without(ranges: list[Range], taken: list[Range]) -> list[Range]:
    """The offsets of ``ranges`` that are in none of ``taken``."""
    left = merge_ranges(ranges)
    for first, end in taken:
        left = merge_ranges([piece for a, b in left for piece in ((a, min(b, first)), (max(a, end), b))])
    return left


def offsets_in(ranges: list[Range]) -> int:
    """The number of offsets in ``ranges``, which do not overlap."""
    return sum(end - first for first, end in ranges)


def _stretches(rows: pa.Table, resets: list[int]) -> list[dict[str, int]]:
    """By stretch (0: before the first reset) and partition, the lowest and the highest offset that was read."""
    batches = rows.select(["sequence", "offsets"]).combine_chunks()
    if not batches.num_rows:
        return []
    offsets = batches["offsets"].chunk(0)
    batch = pc.list_parent_indices(offsets).to_numpy()
    stretch = np.searchsorted(np.array(resets, dtype=np.int64), batches["sequence"].to_numpy()[batch])
    entries = offsets.flatten()
    flat = pa.table({"stretch": stretch, **{name: entries.field(name) for name in ("partition", "first", "last")}})
    found: list[dict[str, int]] = (
        flat.group_by(["stretch", "partition"]).aggregate([("first", "min"), ("last", "max")]).to_pylist()
    )
    return found
