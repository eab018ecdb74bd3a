"""Refuses a micro-batch with offsets that were committed before, as those of a topic that was made anew."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hourline_core.errors import SourceError
from hourline_core.model.scratch_columns import OFFSET, PARTITION, TOPIC, TOPIC_ID


class OffsetOrder:
    """The next offset of each partition that was read, by topic id and number. A partition that is not among
    ``next_offsets`` begins anywhere.
    """

    def __init__(self, next_offsets: Mapping[tuple[str, int], int]) -> None:
        self._next = dict(next_offsets)

    def refuse_repeated(self, rows: pa.Table) -> None:
        """Raise SourceError if ``rows`` (TOPIC, TOPIC_ID, PARTITION, OFFSET) have an offset that was committed. Offsets
        may be missing: those of compacted records, and of markers of transactions.
        """
        for read in _ranges(rows):
            following = self._next.get((read[TOPIC_ID], read[PARTITION]), 0)
            if read[f"{OFFSET}_min"] < following:
                raise SourceError(
                    f"topic '{read[TOPIC]}' partition {read[PARTITION]} gave offset {read[f'{OFFSET}_min']} after "
                    f"offset {following - 1} was read; was the topic deleted and made anew? None of its new "
                    "records was counted; start the speed layer again"
                )

    def note_committed(self, rows: pa.Table) -> None:
        """Refuse the offsets of ``rows``, which are committed, from now on."""
        self._next |= {(read[TOPIC_ID], read[PARTITION]): read[f"{OFFSET}_max"] + 1 for read in _ranges(rows)}


def _ranges(rows: pa.Table) -> list[dict[str, Any]]:
    ranges: list[dict[str, Any]] = (
        rows.group_by([TOPIC, TOPIC_ID, PARTITION]).aggregate([(OFFSET, "min"), (OFFSET, "max")]).to_pylist()
    )
    return ranges
