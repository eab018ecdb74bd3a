"""The mistakes in the declarations of a project. Each is one line: file, line, what was got, what is allowed."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError

SOURCE = "topic: t\nfields: {a: string, b: int}\nevent_time: a\n"
METRIC = "source: s\nmeasures: {n: count}\n"
LOWER = "allowed are lower-case letters from a to z, digits and _, starting with a letter"
UNCLOSED = "whose brackets or quotes do not close (between { } and [ ], YAML wants text with a comma in quotes)"


def mistakes(folder: Path, files: dict[str, str | bytes]) -> list[str]:
    """What is said of a project with one source and one metric once it has ``files``, line by line."""
    for name, text in {"hourline.yaml": "", "sources/s.yaml": SOURCE, "metrics/m.yaml": METRIC, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DeclarationError) as caught:
        load_project(folder, {})
    return str(caught.value).splitlines()


def with_measure(text: str) -> str:
    """A metric whose fourth line has this measure."""
    return f"source: s\nmeasures:\n  n: count\n  x: {text}\n"
