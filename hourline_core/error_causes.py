"""Finds the cause of an exception that libraries have wrapped: Spark in its own words with a Java trace, delta-rs in
colours, Hourline in its sentence.

Java's words are taken as they came with the exception. To ask Java again may take a process that has ended.
"""

import errno
import os
import re
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_LONGEST = 300
"""The maximum number of characters of a library's words."""

_PACKAGES = ("hourline", "hourline_core", "speed_layer", "batch_layer", "serving_layer")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CAUSED_BY = re.compile(r"^(?:Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*): *(.*)$", re.MULTILINE)
_NAMED_BY_JAVA = re.compile(
    r'^(?:: |Caused by: |Exception in thread "[^"\n]*" )?'
    r"((?:[a-z]\w*\.)+[\w$]*(?:Error|Exception))(?:: *(.*))?$",
    re.MULTILINE,
)
_OF_PYTHON = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt): .*$", re.MULTILINE)

_WORKER = "pyspark/worker.py"
_LINE = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)

_OF_MACHINES = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK),
)
_OF_FILES = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ESTALE)
"""The system's numbers that a program may expect. They are a cause only of what was raised because of them."""


def chain(error: BaseException | None, *, handled: bool = True) -> Iterator[BaseException]:
    """``error``, and then what caused each, the first cause last. With ``handled``, that is also the exception that
    was handled when another one was raised, unless it is told to be no cause.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        context = error.__context__ if handled and not error.__suppress_context__ else None
        error = getattr(error, "_cause", None) or error.__cause__ or context


def texts_of(errors: Iterable[BaseException]) -> Iterator[str]:
    """What each of the exceptions says."""
    for one in errors:
        parts = [getattr(one, "_desc", None), getattr(one, "_stackTrace", None)]
        if not any(parts):
            with suppress(Exception):  # of a Java that has ended
                parts = [str(one)]
        yield from (_COLOUR.sub("", str(part)) for part in parts if part)


def errno_of(error: BaseException) -> int | None:
    """The system's number of the first cause."""
    # Libraries pass on the system's words, and seldom its number. Some of these words are said by others, too.
    return _errno_in([*chain(error)], _OF_MACHINES, "WORDS") or _errno_in(
        [*chain(error, handled=False)], _OF_FILES, r"(?:^|[:(] ?)WORDS\W*$"
    )


def _errno_in(errors: list[BaseException], numbers: Collection[int], pattern: str) -> int | None:
    for one in reversed(errors):
        if isinstance(one, OSError) and one.errno in numbers:
            return one.errno
    for text in reversed([*texts_of(errors)]):
        for number in numbers:
            said = rf"{pattern.replace('WORDS', os.strerror(number))}|\b(?:os error|errno|Os {{ code:) {number}\b"
            if re.search(said, text, re.IGNORECASE | re.MULTILINE):
                return number
    return None


def is_of_worker(errors: Iterable[BaseException]) -> bool:
    """Whether one of the exceptions was raised in a Python worker of Spark."""
    known = [*errors]
    # What a task has told comes with its trace in a note. Of other tasks, Spark makes a text.
    return any(hasattr(one, "__notes__") for one in known) or any(_WORKER in text for text in texts_of(known))


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


def java_causes(text: str) -> list[str]:
    """The errors that Java names in ``text``, each with its words: what it raised first, then what caused it."""
    named = [(name.rpartition(".")[2], _in_one_line(words)) for name, words in _NAMED_BY_JAVA.findall(text)]
    return [*dict.fromkeys(f"{name}: {words}" if words else name for name, words in named)]


def place_in_hourline(error: BaseException) -> str:
    """The last line of Hourline's own code that ``error`` came through."""
    here = Path(__file__).parent
    for name, line in reversed([*_lines_of(error)]):
        file = Path(name)
        if file.is_relative_to(here.parent) and file.relative_to(here.parent).parts[0] in _PACKAGES:
            return f" ({file.relative_to(here.parent)}:{line})"
    return ""


def _lines_of(error: BaseException) -> Iterator[tuple[str, str]]:
    """The files and lines that ``error`` came through, the first cause last."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, str(frame.lineno)
    # What a task of Spark has raised comes without its trace, which is in a note.
    for note in getattr(error, "__notes__", ()):
        yield from _LINE.findall(note)


def _in_one_line(text: str) -> str:
    text = text.partition("SQLSTATE")[0].partition("\n\n")[0].partition("\n\tat ")[0]
    text = re.sub(r"^\[[A-Z_.]+\] ", "", " ".join(text.replace("↳", ":").split())).replace(" :", ":").rstrip(" .;")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
