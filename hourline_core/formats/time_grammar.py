"""The grammar of times and dates in texts, as patterns that Python, Java and Arrow (RE2) read alike.

A pattern knows the calendar: what it matches is a day that there is, also with regard to leap years. It has the bounds
of the whole text in it (``\\A`` and ``\\z``, which Python writes ``\\Z``: use ``matches`` there).
"""

import re

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_MONTH_AND_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DAY = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

ISO_DATE = rf"\A{_DAY}\z"
"""``YYYY-MM-DD``, from the year 1 to 9999."""

ISO_LOCAL = rf"\A{_DAY}[T ]{_TIME}\z"
"""``YYYY-MM-DDTHH:MM:SS``, a space instead of the T, and at most nine digits of a second behind a point."""

ISO_WITH_OFFSET = rf"\A{_DAY}[T ]{_TIME}{_OFFSET}\z"
"""The same with ``Z`` or an offset, ``+HH:MM`` or ``-HH:MM``, of less than 24 hours."""

_COMPILED = {pattern: re.compile(pattern.replace(r"\z", r"\Z")) for pattern in (ISO_DATE, ISO_LOCAL, ISO_WITH_OFFSET)}


def matches(pattern: str, text: str) -> bool:
    """Whether ``text`` has the form of one of the patterns of this module."""
    return _COMPILED[pattern].match(text) is not None
