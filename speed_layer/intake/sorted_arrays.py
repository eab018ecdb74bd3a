"""Looks values up in sorted arrays: ids that were seen, and offsets that were read."""

from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]


def is_among(values: Integers, held: Integers) -> npt.NDArray[np.bool_]:
    """Return by value whether it is in ``held``, which is sorted and not empty."""
    places = np.minimum(np.searchsorted(held, values), len(held) - 1)
    found: npt.NDArray[np.bool_] = held[places] == values
    return found


def distinct(*parts: Integers) -> Integers:
    """The values of all parts, sorted, each once. It is fastest if each part is sorted: such runs are merged.

    numpy's own ``unique`` and ``union1d`` put the values into a hash table, which takes a hundred times as long.
    """
    values = np.concatenate(parts)
    values.sort(kind="stable")
    differs = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return values if differs.all() else values[differs]


def in_file(values: Integers, folder: Path) -> Integers:
    """The same values in a file below ``folder``. The file has no name, so the system deletes it when the array is
    freed, and when the process ends in any way. Raises OSError, with the folder as its ``filename``.
    """
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(values.data)
            file.flush()  # A file that the disk has no room for would be found only when it is read.
            # An array that numpy maps keeps a file open, and a process may have few. There are several for each hour.
            with pa.memory_map(f"/dev/fd/{file.fileno()}") as mapped:
                return np.frombuffer(mapped.read_buffer(), np.int64)
    except OSError as error:
        error.filename = str(folder)
        raise


def is_in_file(values: Integers) -> bool:
    """Whether ``in_file`` has made it. All others own their memory, since ``distinct`` has made them."""
    return not values.flags.owndata
