"""Finds the cause of an exception that libraries have wrapped: Spark in its own words with a Java trace, delta-rs in
colours, Hourline in its sentence.

Java's words are taken as they came with the exception. To ask Java again may take a process that has ended.
"""

import errno
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LONGEST = 300
"""The maximum number of characters of a library's words."""

_PACKAGES = ("hourline", "hourline_core", "speed_layer", "batch_layer", "serving_layer")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = re.compile(r"(?:os error|errno) (\d+)", re.IGNORECASE)
CAUSED_BY = re.compile(r"^(?:Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*): *(.*)$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt): .*$", re.MULTILINE)

# Libraries pass on the system's words, and seldom its number.
_IN_WORDS = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        errno.EIO,
    )
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error``, and then what caused each, the first cause last."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "_cause", None) or error.__cause__ or error.__context__


def texts_of(error: BaseException) -> Iterator[str]:
    """What each exception of the chain says."""
    for one in chain(error):
        parts = [getattr(one, "_desc", None), getattr(one, "_stackTrace", None)]
        if not any(parts):
            with suppress(Exception):  # of a Java that has ended
                parts = [str(one)]
        yield from (_COLOUR.sub("", str(part)) for part in parts if part)


def errno_of(error: BaseException, texts: list[str]) -> int | None:
    """The system's number of the first cause."""
    for one in reversed(list(chain(error))):
        if isinstance(one, OSError) and one.errno in _IN_WORDS.values():
            return one.errno
    for text in reversed(texts):
        numbers = [int(number) for number in _NUMBER.findall(text) if int(number) in _IN_WORDS.values()]
        numbers += [number for words, number in _IN_WORDS.items() if words in text]
        if numbers:
            return numbers[0]
    return None


def first_cause(texts: list[str]) -> str:
    """The words of the first cause: those of a Python worker, else the last that Java names, else the last text."""
    for text in reversed(texts):
        if "Traceback (most recent call last)" in text and (said := _OF_PYTHON.findall(text)):
            return _in_one_line(said[-1])
    for text in reversed(texts):
        if "\n\tat " in text and (causes := CAUSED_BY.findall(text)):
            name, words = causes[-1]
            return _in_one_line(words) or name.rpartition(".")[2]
    return _in_one_line(next((text for text in reversed(texts) if text.strip()), "no reason given"))


def place_in_hourline(error: BaseException) -> str:
    """The last line of Hourline's own code that ``error`` came through."""
    here = Path(__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(here.parent) and file.relative_to(here.parent).parts[0] in _PACKAGES:
            return f" ({file.relative_to(here.parent)}:{frame.lineno})"
    return ""


def _in_one_line(text: str) -> str:
    text = text.partition("SQLSTATE")[0].partition("\n\n")[0].partition("\n\tat ")[0]
    text = re.sub(r"^\[[A-Z_.]+\] ", "", " ".join(text.replace("↳", ":").split())).replace(" :", ":").rstrip(" .;")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
