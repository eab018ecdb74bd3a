"""The last record that was read of each partition, in a form that can be compared with what stands in Kafka later.

A log that was cut off and has grown again, or that comes from a backup, has another record at that offset.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class LastRecord:
    """The record with the highest offset that was read of a partition."""

    partition: int
    offset: int
    timestamp: datetime | None
    """Kafka's timestamp of it (UTC). None: it has none."""
    checksum: str
    """That of ``checksum_of``."""


def checksum_of(key: bytes | None, value_crc: int | None, headers: Mapping[str, bytes | None]) -> str:
    """A checksum of a record: 16 hexadecimal digits. ``value_crc`` is the CRC-32 of its value. None: it has none."""
    parts = repr((key, value_crc, sorted(headers.items())))
    return hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()


def later_of(one: Iterable[LastRecord], other: Iterable[LastRecord]) -> tuple[LastRecord, ...]:
    """Of each partition, the record with the higher offset."""
    found: dict[int, LastRecord] = {}
    for record in (*one, *other):
        known = found.get(record.partition)
        found[record.partition] = record if known is None or record.offset >= known.offset else known
    return tuple(found[partition] for partition in sorted(found))
