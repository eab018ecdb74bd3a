"""Why records of a batch are rejected. Of several reasons, the first one counts."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Reasons:
    """Collects the reasons of a batch. A check costs Python per row for those alone that it rejects."""

    def __init__(self, rows: pa.Array) -> None:
        """``rows`` (boolean) are those that can be rejected."""
        self._undecided = mask_of(rows)
        self._texts: list[str] = []
        self._text_of_row = np.full(len(rows), -1, np.int32)

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """The rows that can be rejected, and were not so far."""
        return self._undecided

    def reject(self, rows: pa.Array, reason: str | Callable[[int], str]) -> None:
        """Reject the undecided ones of ``rows`` (boolean; null: no) for one reason, or for that of each row."""
        rejected = np.flatnonzero(mask_of(rows) & self._undecided)
        if not rejected.size:
            return
        self._text_of_row[rejected] = np.arange(rejected.size) + len(self._texts)
        self._texts.extend(reason if isinstance(reason, str) else reason(row) for row in rejected.tolist())
        self._undecided[rejected] = False

    def reject_for(self, reasons: pa.Array) -> None:
        """Reject the undecided rows that have one of ``reasons`` (string)."""
        if reasons.null_count < len(reasons):
            self.reject(reasons.is_valid(), lambda row: reasons[row].as_py())

    def to_arrow(self) -> pa.Array:
        """The reason of each row (string); null if it was not rejected."""
        if not self._texts:
            return pa.nulls(len(self._text_of_row), pa.string())
        indices = pa.array(self._text_of_row, mask=self._text_of_row < 0)
        return pa.array(self._texts, pa.string()).take(indices)


def mask_of(rows: pa.Array) -> npt.NDArray[np.bool_]:
    """``rows`` (boolean) as one that can be written to; null is false."""
    mask: npt.NDArray[np.bool_] = rows.fill_null(False).to_numpy(zero_copy_only=False)
    return mask if mask.flags.writeable else mask.copy()
