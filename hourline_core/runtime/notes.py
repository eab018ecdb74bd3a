"""Notes that a running process leaves in the workspace, for whoever asks where it is and how it is.

<workspace>/run/<name>.json     an object with the id of the process that wrote it, or that it is about
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hourline_core.runtime.disk import sync


def note_file(workspace: Path, name: str) -> Path:
    """The file of the note ``name``."""
    return workspace / "run" / f"{name}.json"


def write_note(file: Path, said: Mapping[str, object]) -> None:
    """Write a note in one step, over the one before. It has the ``pid`` of this process, unless ``said`` has another.
    After a power cut, it is this one or the one before. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(json.dumps({"pid": os.getpid(), **said}), encoding="utf-8")
    sync(partial)
    partial.replace(file)
    sync(file.parent)


def read_note(file: Path) -> dict[str, Any] | None:
    """What a note says. None: there is none, or it is cut short. A killed process leaves its notes behind. Raises
    OSError.
    """
    try:
        said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # A power cut may leave an empty file.
        return None
    return said


def delete_note(file: Path) -> None:
    """Delete a note, if it is there. Raises OSError."""
    file.unlink(missing_ok=True)
