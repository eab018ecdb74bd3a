"""A folder in the workspace for the files of one piece of work.

<workspace>/run/<name>/<id>         the files; they end with the work, or when the next one begins after a kill
<workspace>/run/<name>/<id>.lock    held by the process that works there
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from hourline_core.runtime.file_lock import hold_lock, holder


@contextmanager
def scratch_folder(workspace: Path, name: str) -> Iterator[Path]:
    """A new folder among those called ``name``, which is deleted at the end of the block. Those of killed processes are
    deleted first. Raises OSError.
    """
    among = workspace / "run" / name
    _delete_leftovers(among)
    folder = among / uuid4().hex
    with hold_lock(_lock_of(folder), f"works in {folder}"):
        try:
            folder.mkdir()
            yield folder
        finally:
            _delete(folder)


def _delete_leftovers(among: Path) -> None:
    # A process makes its folder once it has the lock. So a folder without one is nobody's.
    for folder in among.glob("*"):
        if folder.is_dir() and holder(_lock_of(folder)) is None:
            _delete(folder)


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        _lock_of(folder).unlink()


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")
