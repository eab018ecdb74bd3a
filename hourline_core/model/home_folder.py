"""``~`` at the start of a path."""

import os
from pathlib import Path


def expand_home(path: str | Path) -> Path:
    """``path`` with the home folder in the place of ``~`` or ``~user``. As in a shell, one that is unknown stays as it
    is.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path.expanduser raises RuntimeError for one that is unknown)
