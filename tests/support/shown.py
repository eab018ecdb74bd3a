"""What the documentation shows: its blocks of code, and its commands with what they are said to print."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, TUTORIAL = (ROOT / page for page in ("README.md", "docs/tutorial.md"))

# What differs from run to run.
_VOLATILE = [
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"process \d+", "PROCESS"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "MOMENT"),
    (r"in \d+\.\d s: [\d,]+ records/s", "PACE"),
    (r"^(pageviews) +\d+", r"\1 SEQUENCE"),
]


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in a language, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command that a page shows, and the lines that it is said to print, as ``plain`` has them."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.splitlines()
            yield command, plain(output)


def plain(lines: list[str]) -> list[str]:
    """Without what differs from run to run, the widths of columns, and empty lines."""
    cleaned = []
    for line in lines:
        text = line
        for pattern, word in _VOLATILE:
            text = re.sub(pattern, word, text)
        cleaned.append(" ".join(text.split()))
    return [line for line in cleaned if line]
