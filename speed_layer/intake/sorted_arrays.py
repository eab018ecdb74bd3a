"""Looks values up in sorted arrays: ids that were seen, and offsets that were read."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def is_among(values: Integers, held: Integers) -> npt.NDArray[np.bool_]:
    """Return by value whether it is in ``held``, which is sorted and not empty."""
    places = np.minimum(np.searchsorted(held, values), len(held) - 1)
    found: npt.NDArray[np.bool_] = held[places] == values
    return found
