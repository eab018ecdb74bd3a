"""Windows in the words of Flink, ksqlDB and Spark.

``TUMBLE(event_time, INTERVAL '1' HOUR)`` in SELECT or GROUP BY, ``TABLE(TUMBLE(TABLE x, DESCRIPTOR(event_time),
INTERVAL '1' HOUR))`` after FROM, ``WINDOW TUMBLING (SIZE 1 HOUR)``, and ``window(event_time, '1 hour')``.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from hourline_core.model.sql_form.statement import Part, SqlMistake

BOUNDS = ("window_start", "window_end", "windowstart", "windowend", "hour")
"""The bounds of a window, by the names of Flink, ksqlDB and Hourline. Each result has them without being asked."""

_FUNCTION = re.compile(r"(TUMBLE|HOP|SESSION|WINDOW)(_START|_END)?")
_OPTION = re.compile(r"(SIZE|ADVANCE BY) .*", re.IGNORECASE)
_OPTIONS = {"TUMBLING": {"SIZE"}, "HOPPING": {"SIZE", "ADVANCE BY"}}
_LENGTH = re.compile(r"(?:interval )?'?(\d+)'? ?([a-z]+?)s?'?", re.IGNORECASE)


@dataclass(frozen=True)
class TimeWindow:
    """Tumbling windows of a ``size``, or hopping ones, of which one begins ``every`` so often."""

    size: str
    """A length as a declaration writes it, such as ``1 hour`` or ``2 days``."""
    every: str | None = None

    def as_key(self) -> str | dict[str, str] | None:
        """The value of the key ``window``. None for the hour, which is its default."""
        if self.every in (None, self.size):
            return None if self.size == "1 hour" else self.size
        return {"size": self.size, "every": self.every}


def is_window(part: Part) -> bool:
    """Whether an item of SELECT or GROUP BY is a window, or one of its bounds."""
    call = part.call()
    return part.text.lower() in BOUNDS if call is None else bool(_FUNCTION.fullmatch(call[0]))


def read_window_function(part: Part, times: Collection[str]) -> TimeWindow | None:
    """The window of a call such as ``TUMBLE(event_time, INTERVAL '1' HOUR)``. None if the part only names a bound.

    ``times`` are the names of the event time in lower case; all are allowed if there are none. Raises SqlMistake for
    other windows, and for another time.
    """
    call = part.call()
    if call is None:
        return None
    function, arguments = call[0].removesuffix("_START").removesuffix("_END"), call[1].split()
    if arguments and arguments[0].tokens[0].text.upper() == "TABLE":
        arguments = arguments[1:]
    time = arguments[0] if arguments else part
    if (descriptor := time.call()) and descriptor[0] == "DESCRIPTOR":
        time = descriptor[1]
    if times and time.text.lower() not in times:
        raise SqlMistake(
            part.line,
            f"got the time '{time.text}', allowed is the source's event time: {' or '.join(sorted(times))}",
        )
    lengths = [_read_length(argument) for argument in arguments[1:]]
    if function == "HOP" and len(lengths) == 2:
        return _hop(every=lengths[0], size=lengths[1])
    if function == "WINDOW" and len(lengths) == 2:
        return _hop(every=lengths[1], size=lengths[0])
    if function in ("TUMBLE", "WINDOW") and len(lengths) == 1:
        return TimeWindow(size=lengths[0])
    raise SqlMistake(
        part.line,
        f"got '{part.text}', allowed are TUMBLE(event_time, size) and HOP(event_time, every, size), "
        "with lengths such as INTERVAL '1' HOUR",
    )


def read_window_clause(part: Part) -> TimeWindow:
    """The window of ksqlDB's ``WINDOW TUMBLING (SIZE 1 HOUR)``. Raises SqlMistake for other windows and options."""
    call = part.call()
    options: dict[str, str] = {}
    for option in call[1].split() if call else []:
        match = _OPTION.fullmatch(option.text)
        if match is None:
            raise SqlMistake(
                option.line,
                f"got '{option.text}', allowed are SIZE and ADVANCE BY: the grace of a window is that of its source",
            )
        options[match[1].upper()] = _read_length(option.slice(len(match[1].split())))
    if call and options.keys() == _OPTIONS.get(call[0]):
        return _hop(options.get("ADVANCE BY", options["SIZE"]), options["SIZE"])
    raise SqlMistake(
        part.line,
        f"got 'WINDOW {part.text}', allowed are WINDOW TUMBLING (SIZE 1 HOUR) and "
        "WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR)",
    )


def _hop(every: str, size: str) -> TimeWindow:
    """A day is 24 hours if it advances by hours, as in Flink."""
    count, unit = size.split()
    if every.endswith(("hour", "hours")) and unit.startswith("day"):
        size = f"{24 * int(count)} hours"
    return TimeWindow(size, every)


def _read_length(part: Part) -> str:
    match = _LENGTH.fullmatch(part.text)
    if match is None:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is a length such as INTERVAL '1' HOUR")
    count, unit = int(match[1]), match[2].lower()
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
