"""What a process has freed between blocks in use goes back to the system."""

import ctypes
from pathlib import Path

import pytest

from hourline_core.runtime.freed_memory import give_back_memory

BLOCKS, SIZE = 50_000, 1000


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps it, and can give it back")
def test_memory_below_a_block_in_use_is_given_back() -> None:
    blocks = [bytes(SIZE) for _ in range(BLOCKS)]
    last = blocks.pop()
    blocks.clear()
    held = resident_kilobytes()
    give_back_memory()
    assert held - resident_kilobytes() > BLOCKS * SIZE / 1024 / 2
    assert len(last) == SIZE


def resident_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
