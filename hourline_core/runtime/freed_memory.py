"""Gives memory that a process has freed back to the system."""

import ctypes


def give_back_memory() -> None:
    """Give back what is free between blocks that are in use. glibc keeps it for later blocks, for as long as the
    process lives: the sketches of a million groups are small blocks, and left hundreds of megabytes in each process.

    Other C libraries have no such call.
    """
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
