"""Records to replay."""

from hourline_core.formats.files.reading import ANY_PARTITION
from hourline_core.formats.files.record import Record, rank_of


def record(line: int, payload: bytes = b"{}", *, at: object = None, partition: int | None = ANY_PARTITION) -> Record:
    return Record(line, payload, None, partition, rank_of(at))
