"""The site: where its files lie, and how they are written.

index.html                       the overview page
style.css                        of all pages
runs/<publication>/<name>.html   the page of one audit
trends/<name>.html               the trend of each expectation of a metric, or of a source's events
"""

import os
import shutil
from collections.abc import Collection
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"

LONGEST = 160
"""The maximum number of characters that are shown of a value."""


def shorten(text: str) -> str:
    """``text``, shortened to ``LONGEST`` characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def moment_text(moment: datetime) -> str:
    """``2013-01-05 14:07 UTC``."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@cache
def templates() -> Environment:
    """Jinja2 with the pages' templates. It escapes everything that is put into them."""
    # Indentation helps those who edit the templates. In a page with thousands of links it only takes space.
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write(site: Path, path: str, text: str) -> Path:
    """Write a page, and the stylesheet if it is missing. A reader sees the old page or the new one, never half of
    one. Raises OSError.
    """
    style = (TEMPLATES / "style.css").read_bytes()
    target = site / "style.css"
    if not target.is_file() or target.read_bytes() != style:
        _replace(target, style)
    return _replace(site / path, text.encode())


def prune(site: Path, linked: Collection[int]) -> list[int]:
    """Remove the pages of publications that nothing links to any more, and return their numbers. Only the names of the
    folders are read.

    Pages of publications newer than all ``linked`` ones stay: their hours may be about to be published.
    """
    runs = site / "runs"
    there = [int(folder.name) for folder in runs.glob("*") if folder.name.isdecimal()]
    old = sorted(
        publication for publication in there if publication not in linked and publication < max(linked, default=0)
    )
    for publication in old:
        shutil.rmtree(runs / f"{publication:06d}", ignore_errors=True)
    return old


def _replace(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
    return path
