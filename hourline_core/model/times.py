"""Durations and points in time in declarations."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

from hourline_core.model.base import describe, refuse, suggest

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
_SHORT = re.compile(r"(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m(?!s))?\s*(?:(\d+)s)?\s*(?:(\d+)ms)?", re.ASCII)
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)
_ALLOWED_DURATION = "allowed are durations such as 30s, 90m, 2h, 1d, 1h 30m or PT2H"
_LONGEST = timedelta(days=36_500)
"""A century: it keeps computed times within the years that a datetime can have."""
_ALLOWED_MOMENT = "allowed are points in time with their offset from UTC, such as 2026-01-31T00:00:00Z"


def parse_duration(value: object) -> timedelta:
    """Parse ``2h``, ``90m``, ``1d``, ``30s``, ``500ms``, ``1h 30m`` or ISO 8601 (``PT2H``). A timedelta is passed on.

    Raises a pydantic error for other values, and for negative ones.
    """
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise refuse(f"got {describe(value)}, {_ALLOWED_DURATION}, not negative")
        return value
    if isinstance(value, str):
        match = _SHORT.fullmatch(value.strip()) or _ISO.fullmatch(value.strip())
        if match and any(match.groups()):
            # The ISO form has one group less, since it has no milliseconds.
            parts = {unit: int(number) for unit, number in zip(_UNITS.values(), match.groups(), strict=False) if number}
            try:
                duration = timedelta(**parts)
            except OverflowError:
                duration = timedelta.max
            if duration > _LONGEST:
                raise refuse(f"got {describe(value)}, which is too long: allowed are at most {_LONGEST.days}d")
            return duration
    raise refuse(f"got {describe(value)}, {_ALLOWED_DURATION}")


def duration_text(duration: timedelta) -> str:
    """The text of a duration that is not negative, as ``parse_duration`` reads it: ``1h 30m``, ``0s``."""
    parts = []
    for unit, name in _UNITS.items():
        number, duration = divmod(duration, timedelta(**{name: 1}))
        parts += [f"{number}{unit}"] if number else []
    return " ".join(parts) or "0s"


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise refuse(f"got {describe(value)}, {_ALLOWED_MOMENT}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise refuse(f"got {describe(value)}, allowed are the years 1 to 9999 in UTC") from None


def _zone(name: str) -> str:
    zones = available_timezones()
    if name in zones:
        return name
    raise refuse(f"got {describe(name)}, allowed are IANA time zones, such as America/New_York{suggest(name, zones)}")


Duration = Annotated[
    timedelta,
    PlainValidator(parse_duration),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["30s", "90m", "2h", "1d", "PT2H"]}),
]
Moment = Annotated[
    datetime,
    PlainValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An aware datetime in UTC."""

Zone = Annotated[str, AfterValidator(_zone)]
"""The name of an IANA time zone."""
