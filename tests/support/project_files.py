"""The files of a project, written into a folder."""

import textwrap
from collections.abc import Mapping
from pathlib import Path


def write_project(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a project; texts may be indented as the code around them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root
