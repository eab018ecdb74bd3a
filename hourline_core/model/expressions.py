"""Spark SQL expressions as text.

Only Spark can resolve them. Here, they must not be empty, and their brackets and quotes must close.
"""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.model.base import describe, refuse

UNCLOSED = "whose brackets or quotes do not close (between { } and [ ], YAML wants text with a comma in quotes)"


ATTEMPT = "hourline_attempt"
"""A function of Hourline's Spark sessions: the value of its argument, or null if Spark raises an error for it."""

_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_COLUMN = re.compile(rf"{_QUOTED}|(?<![\w.`])(?:`([^`]+)`|(\w+))(?![\w`]|\s*\()")
_NAME = re.compile(r"`([^`]+)`|([A-Za-z_]\w*)", re.ASCII)
_LITERALS = ("true", "false", "null")


def named_column(text: str) -> str | None:
    """The name in lower case that the expression merely is, plain or in backticks. None: it is something else."""
    name = _NAME.fullmatch(text.strip())
    if name is None or (name[2] or "").lower() in _LITERALS:
        return None
    return (name[1] or name[2]).lower()


def attempt(text: str) -> str:
    """Spark SQL for the value of an expression, or null for the events that Spark raises an error for."""
    return text if named_column(text) else f"{ATTEMPT}({text}\n)"  # A comment may end the text.


def column_names(text: str) -> frozenset[str]:
    """The names in lower case that the expression reads: no functions, no parts of a column (`a.b`), no quoted text.

    A name of a lambda's parameter is among them, too.
    """
    names = (match[1] or match[2] for match in _COLUMN.finditer(text))
    return frozenset(name.casefold() for name in names if name)


def outer_commas(text: str, *, opening: str = "(", closing: str = ")") -> list[int] | None:
    """Positions of the commas outside all brackets and quotes; None if a bracket or quote does not close."""
    depth = 0
    commas = []
    for position, character in _outside_quotes(text):
        if character in opening:
            depth += 1
        elif character in closing:
            depth -= 1
        elif character == "," and depth == 0:
            commas.append(position)
        if depth < 0 or character == "":
            return None
    return commas if depth == 0 else None


def find_outer_word(text: str, word: str) -> int | None:
    """The position of the first ``word``, in any case of letters, outside all brackets and quotes. None: none is."""
    outside, depth = [" "] * len(text), 0
    for position, character in _outside_quotes(text):
        depth += (character in "(") - (character in ")") if character else 0
        if depth == 0 and character:
            outside[position] = character
    found = re.search(rf"(?<![\w.]){word}(?!\w)", "".join(outside), re.IGNORECASE)
    return found.start() if found else None


def _outside_quotes(text: str) -> Iterator[tuple[int, str]]:
    """Yield each character that is not inside quotes, and a final empty one if the last quote does not close."""
    quote = ""
    escaped = False
    for position, character in enumerate(text):
        if not quote:
            quote = character if character in "'\"`" else ""
            if not quote:
                yield position, character
        elif escaped:
            escaped = False
        elif character == "\\" and quote != "`":
            escaped = True
        elif character == quote:
            quote = ""
    if quote:
        yield len(text), ""


def _expression(text: str) -> str:
    text = text.strip()
    if not text:
        raise refuse("got nothing, allowed is a Spark SQL expression")
    if outer_commas(text) is None:
        raise refuse(f"got {describe(text)}, {UNCLOSED}")
    return text


Expression = Annotated[str, AfterValidator(_expression)]
"""A Spark SQL expression, stripped, not empty."""
