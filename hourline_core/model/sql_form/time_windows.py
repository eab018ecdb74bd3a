"""Windows in the words of Flink, ksqlDB and Spark.

``TUMBLE(event_time, INTERVAL '1' HOUR)`` in SELECT or GROUP BY, ``TABLE(TUMBLE(TABLE x, DESCRIPTOR(event_time),
INTERVAL '1' HOUR))`` after FROM, ``WINDOW TUMBLING (SIZE 1 HOUR)``, and ``window(event_time, '1 hour')``. Sessions are
``SESSION(event_time, INTERVAL '30' MINUTE)``, ``WINDOW SESSION (30 MINUTES)``, and ``session_window(event_time, '30
minutes')``.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from hourline_core.model.sql_form.statement import Part, SqlMistake

BOUNDS = ("window_start", "window_end", "windowstart", "windowend", "hour")
"""The bounds of a window, by the names of Flink, ksqlDB and Hourline. Each result has them without being asked."""
WINDOW_FUNCTION = re.compile(
    r"(tumble|hop|cumulate|session|session_window|window)(_start|_end|_time|_rowtime|_proctime)?", re.IGNORECASE
)

_OPTION = re.compile(r"(SIZE|ADVANCE BY) .*", re.IGNORECASE)
_OPTIONS = {"TUMBLING": ["SIZE"], "HOPPING": ["SIZE", "ADVANCE BY"]}
_LENGTH = re.compile(r"(?:interval )?(?:'(\d+) (\w+)'|'?(\d+)'? (\w+))", re.IGNORECASE)
_GAP_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d"}
_ALLOWED = (
    "allowed are TUMBLE(event_time, size), HOP(event_time, every, size) and SESSION(event_time, gap), with lengths "
    "such as INTERVAL '1' HOUR"
)


@dataclass(frozen=True)
class TimeWindow:
    """Tumbling windows of a ``size``, or hopping ones, of which one begins ``every`` so often."""

    size: str
    """A length as a declaration writes it, such as ``1 hour`` or ``2 days``."""
    every: str

    def as_key(self) -> str | dict[str, str] | None:
        """The value of the key ``window``. None for the hour, which is its default."""
        if self.every != self.size:
            return {"size": self.size, "every": self.every}
        return None if self.size == "1 hour" else self.size


@dataclass(frozen=True)
class Session:
    """Sessions with a gap."""

    gap: str
    """A duration as a declaration writes it, such as ``30m``."""

    def as_key(self) -> dict[str, str]:
        """The value of the key ``window``."""
        return {"gap": self.gap}


def is_window_function(part: Part) -> bool:
    """Whether an item of SELECT or GROUP BY, or the table after FROM, is the call of a window function."""
    call = part.call()
    return call is not None and WINDOW_FUNCTION.fullmatch(call[0]) is not None


def read_window_function(part: Part, times: Collection[str]) -> TimeWindow | Session:
    """The window of a call such as ``TUMBLE(event_time, INTERVAL '1' HOUR)``.

    ``times`` are the names of the event time, without spaces; all are allowed if there are none. Raises SqlMistake for
    other windows, and for another time.
    """
    call = part.call()
    arguments = call[1].split() if call else []
    if arguments and arguments[0].tokens[0].text.upper() == "TABLE":
        arguments = arguments[1:]
    if call is None or len(arguments) not in (2, 3):
        raise SqlMistake(part.line, f"got '{part.text}', {_ALLOWED}")
    time = arguments[0]
    if (descriptor := time.call()) and descriptor[0] == "DESCRIPTOR":
        time = descriptor[1]
    if times and without_spaces(time.text) not in times:
        raise SqlMistake(
            part.line,
            f"got the time '{time.text}', allowed is the source's event time: {' or '.join(sorted(times))}",
        )
    lengths = [_read_length(argument) for argument in arguments[1:]]
    match re.sub(r"_(START|END)$", "", call[0]), lengths:
        case (("TUMBLE" | "WINDOW"), [size]):
            return _window(part, size, every=size)
        case "HOP", [every, size]:
            return _window(part, size, every)
        case "WINDOW", [size, every]:
            return _window(part, size, every)
        case (("SESSION" | "SESSION_WINDOW"), [gap]):
            return _session(part, gap)
    raise SqlMistake(part.line, f"got '{part.text}', {_ALLOWED}")


def read_window_clause(part: Part) -> TimeWindow | Session:
    """The window of ksqlDB's ``WINDOW TUMBLING (SIZE 1 HOUR)``. Raises SqlMistake for other windows and options."""
    call = part.call()
    if call and call[0] == "SESSION" and len(call[1].split()) == 1:
        return _session(part, _read_length(call[1]))
    if call is None or call[0] not in _OPTIONS:
        raise SqlMistake(
            part.line,
            f"got 'WINDOW {part.text}', allowed are WINDOW TUMBLING (SIZE 1 HOUR), "
            "WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR) and WINDOW SESSION (30 MINUTES)",
        )
    lengths: dict[str, str] = {}
    for option in call[1].split():
        match = _OPTION.fullmatch(option.text)
        if match is None:
            raise SqlMistake(
                option.line,
                f"got '{option.text}', allowed are SIZE and ADVANCE BY: the grace of a window is that of its source, "
                "and results are kept",
            )
        lengths[match[1].upper()] = _read_length(option.slice(len(match[1].split())))
    if list(lengths) != _OPTIONS[call[0]] or len(call[1].split()) != len(lengths):
        raise SqlMistake(
            part.line, f"got 'WINDOW {part.text}', allowed is each once: {' and '.join(_OPTIONS[call[0]])}"
        )
    return _window(part, lengths["SIZE"], lengths.get("ADVANCE BY", lengths["SIZE"]))


def without_spaces(text: str) -> str:
    """An expression in lower case without spaces and backquotes, to compare it."""
    return re.sub(r"[\s`]", "", text).lower()


def _window(part: Part, size: str, every: str) -> TimeWindow:
    count, unit = size.split()
    if every.split()[1].startswith(("hour", "minute")) and unit.startswith("day"):
        return TimeWindow(f"{24 * int(count)} hours", every)  # A day of UTC has 24 hours.
    if re.fullmatch(r"\d+ days", every):
        raise SqlMistake(
            part.line,
            f"got '{part.text}', which begins on other days in Hourline: it counts days from a Monday, Flink and "
            "ksqlDB from a Thursday; leave the window out of the statement, and write `window: "
            f"{size if size == every else f'{{size: {size}, every: {every}}}'}` beside sql",
        )
    return TimeWindow(size, every)


def _session(part: Part, gap: str) -> Session:
    count, unit = gap.split()
    if (letter := _GAP_UNITS.get(unit.removesuffix("s"))) is None:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is a gap in seconds, minutes, hours or days")
    return Session(f"{count}{letter}")


def _read_length(part: Part) -> str:
    match = _LENGTH.fullmatch(part.text)
    if match is None:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is a length such as INTERVAL '1' HOUR")
    count, unit = int(match[1] or match[3]), (match[2] or match[4]).lower().removesuffix("s")
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
