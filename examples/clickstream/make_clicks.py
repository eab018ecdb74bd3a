"""Makes clicks.jsonl: two days of clicks in the order in which they arrive.

    python -m examples.clickstream.make_clicks

One visit goes on over midnight. Some clicks come late, by up to five hours, and some come twice.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

FILE = Path(__file__).with_name("clicks.jsonl")
_VISITORS = ["ada", "bo", "cy", "dot", "eli", "fay", "gus", "hal"]
_PAGES = ["/toys", "/toys/kite", "/toys/yo-yo", "/books", "/books/atlas", "/books/novel", "/", "/basket", "/thanks"]
_FIRST_DAY = datetime(2026, 4, 6, tzinfo=UTC)
Draw = Callable[[], float]
Click = tuple[datetime, str, str, float | None]
"""Its time, the visitor, the page, and what was ordered."""


def make_clicks() -> list[str]:
    """The lines of the file. They are the same each time."""
    draw = Random(2026).random  # noqa: S311 (its numbers are the same in all versions of Python)
    clicks: list[Click] = []
    for visitor in _VISITORS:
        for day in (0, 1):
            for _ in range(1 + int(5 * draw())):
                start = _FIRST_DAY + timedelta(days=day, hours=6 + 15 * draw())
                clicks += _visit(draw, visitor, start, clicks=1 + int(9 * draw()))
    clicks += _visit(draw, "owl", _FIRST_DAY + timedelta(hours=22, minutes=40), clicks=16)
    arrivals = []
    for number, (time, visitor, page, ordered) in enumerate(sorted(clicks), 1):
        line = json.dumps({"id": number, "visitor": visitor, "at": f"{time:%FT%TZ}", "page": page, "ordered": ordered})
        arrived = time + timedelta(hours=5 * draw() if draw() < 0.06 else 0)
        again = [arrived + timedelta(minutes=2)] if draw() < 0.04 else []
        arrivals += [(moment, number, line) for moment in (arrived, *again)]
    return [line for _, _, line in sorted(arrivals)]


def _visit(draw: Draw, visitor: str, time: datetime, clicks: int) -> Iterator[Click]:
    """Most clicks follow within some minutes, some just half an hour later, which is still the same visit."""
    page = "/"
    for _ in range(clicks):
        yield time, visitor, page, round(5 + 60 * draw(), 2) if page == "/thanks" else None
        page = _PAGES[int(len(_PAGES) * draw())]
        time += timedelta(minutes=30) if draw() < 0.1 else timedelta(seconds=int(5 + 800 * draw() ** 2))


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in make_clicks()))
