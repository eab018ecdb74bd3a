"""Gives memory that a process has freed back to the system."""

import ctypes

import pyarrow as pa


def give_back_memory() -> None:
    """Give back what is free between blocks that are in use. glibc keeps it for later blocks, for as long as the
    process lives: the sketches of a million groups are small blocks, and left hundreds of megabytes in each process.
    Arrow keeps the memory of freed tables, too.

    Other C libraries have no such call.
    """
    pa.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
