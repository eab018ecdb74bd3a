"""Prints text and tables for people, and JSON for programs. All output of commands goes through here.

Data may contain characters that control a terminal: colours, bells, a new line, text from right to left. People see
them escaped, as in ``\\x1b``. Programs get data as it is.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hourline_core.model.hour_state import UNRELIABLE
from hourline_core.model.hours import iso_text
from hourline_core.model.value_text import value_text

STATE_STYLES: dict[str, str] = {
    "final": "green",
    "revised": "yellow",
    "provisional": "cyan",
    "stale": "yellow",
    **dict.fromkeys(UNRELIABLE, "red"),
}


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_CONTROLS_IN_LINES = re.compile(rf"(?!\n){_CONTROLS.pattern}")


def say(text: str) -> None:
    """Print lines for people on standard output."""
    say_raw(_CONTROLS_IN_LINES.sub(_escape, text))


def say_raw(text: str) -> None:
    """Print text that programs read on standard output, as it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print lines for people on standard error, about progress and not about results."""
    sys.stderr.write(f"{_CONTROLS_IN_LINES.sub(_escape, text)}\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """Print ``value`` as ``json_text`` writes it."""
    say_raw(json_text(value))


def json_text(value: Any) -> str:
    """``value`` as JSON, with moments as ISO text in UTC. Decimals are numbers. NaN and infinities, which JSON lacks,
    are null.
    """
    return json.dumps(_plain(value), indent=2, default=_encode, allow_nan=False)


def say_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None, right: Sequence[str] = ()
) -> None:
    """Print a table of ``rows``. States have colours, the columns in ``right`` are aligned right, null is an empty
    cell. The moments of a column are all written to the minute, or as exactly as one of them needs it.
    """
    heading = None if title is None else Text(_in_one_line(title))
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(
            Text(_in_one_line(name), style="bold"), no_wrap=True, justify="right" if name in right else "left"
        )
    units = [_unit(column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [_in_one_line(_cell(value, unit)) for value, unit in zip(row, units, strict=True)]
        # As Text, not as rich's markup: data may contain brackets and :codes:.
        table.add_row(*(Text(cell, style=STATE_STYLES.get(cell, "")) for cell in cells))
    console = Console(highlight=False)
    # Never truncated: a terminal wraps long lines, and a file or pipe has no width.
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=10_000)).maximum)
    console.print(table)


def say_result(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str]) -> None:
    """Print the rows of a query. Null, the text `null` and the empty text are told apart."""
    say_table(columns, [[_told(value) for value in row] for row in rows], right=right)


def say_heading(text: str, state: str, rest: str = "") -> None:
    """Print a line in bold with a state in its colour."""
    style = f"bold {STATE_STYLES.get(state, '')}"
    heading = Text.assemble((_in_one_line(text), "bold"), (state, style), _in_one_line(rest))
    Console(highlight=False).print(heading, soft_wrap=True)


def say_facts(facts: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Print lines, each group of them below a bold word on the left."""
    width = max(len(name) for name, _ in facts) + 2
    console = Console(highlight=False)
    for name, lines in facts:
        for number, line in enumerate(lines):
            console.print(
                Text.assemble((f"{'' if number else name:<{width}}", "bold"), _in_one_line(line)), soft_wrap=True
            )


def shortest_path(path: str | None) -> str | None:
    """The path relative to the working directory, if that is shorter."""
    if path is None or not Path(path).is_relative_to(Path.cwd()):
        return path
    return str(Path(path).relative_to(Path.cwd()))


def signed_number(amount: float | None) -> str:
    """A difference with its sign. Empty for None."""
    return "" if amount is None else f"{amount:+,.6g}" if abs(amount) < 1 else f"{round(amount, 4):+,.15g}"


def _in_one_line(text: str) -> str:
    return _CONTROLS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _unit(column: Iterable[object]) -> str:
    """The coarsest unit that loses nothing of any moment in a column."""
    moments = [value for value in column if isinstance(value, datetime)]
    for unit in ("minutes", "seconds", "milliseconds"):
        if all(datetime.fromisoformat(moment.isoformat(timespec=unit)) == moment for moment in moments):
            return unit
    return "microseconds"


def _cell(value: object, unit: str) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", unit)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _told(value: object) -> object:
    return value_text(value) if value is None or isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """``value`` with an int or float for each decimal, and None for each NaN and infinity."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def _encode(value: object) -> str:
    return iso_text(value) if isinstance(value, datetime) else str(value)


def number_text(value: object) -> object:
    """Fractions with four places, which are enough to recognise them, frequent values with their counts, such as
    `JFK 3, LGA 1`, and texts as ``value_text`` writes them. Other values stay as they are.
    """
    if isinstance(value, str):
        return value_text(value)
    if isinstance(value, list):
        return ", ".join(_frequent_text(one) for one in value)
    if not isinstance(value, float):
        return value
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) >= 0.001 or value == 0 else f"{value:.4g}"


def _frequent_text(one: Mapping[str, Any]) -> str:
    value, count, error = one["value"], one["count"], one["error"]
    if value is None:  # The sketch has dropped all values.
        return f"none more than {error:,} times"
    value = value_text(value)
    return f"{value} {count:,} to {count + error:,}" if error else f"{value} {count:,}"
