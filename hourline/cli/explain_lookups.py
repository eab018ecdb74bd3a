"""What ``explain`` says of lookups: the rows that the events of a number met."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from serving_layer.reports.looked_up import LookedUp, MetRow

_MOST_ROWS = 4


def describe_looked_up(lookups: "list[LookedUp]") -> "Iterator[tuple[str, list[str]]]":
    """The facts of each lookup of the source: a word, and lines."""
    for one in lookups:
        yield one.name, list(_describe(one))


def _describe(one: "LookedUp") -> Iterator[str]:
    of = "" if one.name == one.lookup else f"lookup '{one.lookup}': "
    if one.unknown:
        yield f"{of}not shown: {one.unknown}"
        return
    yield f"{of}{one.matched:,} met a row, {one.unmatched:,} with a key met none, {one.null_keys:,} with a null key"
    for row in one.rows[:_MOST_ROWS]:
        yield _row(row)
    if len(one.rows) > _MOST_ROWS:
        yield f"and {len(one.rows) - _MOST_ROWS:,} more; `--format json` has up to 100"


def _row(met: "MetRow") -> str:
    key = ", ".join(f"{name} {value_text(value)}" for name, value in met.key.items())
    others = {name: value for name, value in (met.row or {}).items() if name not in met.key}
    row = ", ".join(f"{name} {value_text(value)}" for name, value in others.items()) or "a row without other columns"
    version = "never read" if met.version is None else f"version {met.version}"
    events = "1 event" if met.events == 1 else f"{met.events:,} events, the first"
    address = f"{met.topic}[{met.partition}] offset {met.offset:,}"
    return f"{key} ({version}): {met.missed or row}; {events} at {address}"
