"""Notes that a speed layer leaves in the workspace, for whoever asks how it is.

<workspace>/run/<name>.json     an object with the id of the process that wrote it
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_note(workspace: Path, name: str, said: Mapping[str, object]) -> None:
    """Write the note ``name`` of this process, in one step, over the one before. Raises OSError."""
    file = _file(workspace, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps({"pid": os.getpid(), **said}), encoding="utf-8")
    partial.replace(file)


def read_note(workspace: Path, name: str) -> dict[str, Any] | None:
    """What the note ``name`` says, with the ``pid`` of the process that wrote it. None: there is none, or it is cut
    short.
    """
    try:
        said: dict[str, Any] = json.loads(_file(workspace, name).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # A power cut may leave an empty file.
        return None
    return said


def delete_note(workspace: Path, name: str) -> None:
    """Delete the note ``name``, if there is one. Raises OSError."""
    _file(workspace, name).unlink(missing_ok=True)


def _file(workspace: Path, name: str) -> Path:
    return workspace / "run" / f"{name}.json"
