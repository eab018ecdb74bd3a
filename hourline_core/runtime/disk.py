"""Writes files and the names in folders to disk, so that they survive the loss of power."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Sync the content of a file, or the names in a folder. Raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
