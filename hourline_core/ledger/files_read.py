"""Reads from progress which files a source has read as they arrived, and how far.

The topic id of such a file has what identifies it, and the number of its rows. So progress alone tells whether all of
them were read.
"""

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.read_offsets import ARRIVED_FILE


@dataclass(frozen=True)
class FileRead:
    """A file of which rows were read."""

    topic_id: str
    name: str
    """The name that it had when it was read last."""
    end: int
    """The number of its rows, from the first on, that were read."""

    @property
    def is_whole(self) -> bool:
        """Whether all of its rows were read."""
        return self.end >= int(self.topic_id.rpartition(":")[2])


def topic_id_of(identity: str, rows: int) -> str:
    """The topic id of a file with this number of ``rows``. ``identity`` tells it from all other ones."""
    return f"{ARRIVED_FILE}{identity}:{rows}"


def identity_of(topic_id: str) -> str:
    """What identifies the file."""
    return topic_id.removeprefix(ARRIVED_FILE).rpartition(":")[0]


def files_read_of(progress: pa.Table) -> dict[str, FileRead]:
    """What ``progress`` (topic_id, topic, offsets; by sequence) says, by identity, in the order of the first rows."""
    rows = progress.filter(pc.fill_null(pc.starts_with(progress["topic_id"], ARRIVED_FILE), False))
    rows = rows.select(["topic_id", "topic", "offsets"])
    found: dict[str, FileRead] = {}
    for topic_id, name, offsets in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        end = max((read["last"] + 1 for read in offsets), default=0)
        known = found.setdefault(identity_of(topic_id), FileRead(topic_id, name, end))
        found[identity_of(topic_id)] = replace(known, name=name, end=max(known.end, end))
    return found
