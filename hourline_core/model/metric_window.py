"""The declared windows of a metric: a size, how often one starts, and a zone."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, reduce
from math import gcd
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    Discriminator,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.times import Zone
from hourline_core.model.windows import HOURLY, CalendarWindow, HoppingWindow, Window

Unit = Literal["minute", "day", "month"]

_UNITS: dict[str, tuple[Unit, int]] = {
    "m": ("minute", 1),
    "minute": ("minute", 1),
    "h": ("minute", 60),
    "hour": ("minute", 60),
    "d": ("day", 1),
    "day": ("day", 1),
    "w": ("day", 7),
    "week": ("day", 7),
    "month": ("month", 1),
    "year": ("month", 12),
}
_FORM = r"\s*(\d+)\s*(m|h|d|w|(?:minute|hour|day|week|month|year)s?)\s*"
_SIZE = re.compile(_FORM, re.ASCII)
_ALLOWED = "allowed are minutes, hours, days, weeks, months and years, such as 5m, 3h, 1 day or 1 month"
_LONGEST: dict[Unit, int] = {"minute": 60 * 876_000, "day": 36_500, "month": 1_200}
"""A century: it keeps the ends of windows within the years that a datetime can have."""
_MOST_OVERLAPPING = 1_000
"""The maximum number of windows that contain one event. Reading merges each pane that often."""
_CHECKED_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_CHECKED_MONTHS = 38 * 12
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class WindowSize:
    """A number of minutes, days or months. An hour is 60 minutes, a week seven days, and a year twelve months."""

    count: int
    unit: Unit
    text: str = field(compare=False)
    """As it is declared."""

    @classmethod
    def parse(cls, value: object) -> "WindowSize":
        """Parse ``5m``, ``3h``, ``1 day``, ``2 weeks``, ``1 month`` or ``1 year``. A WindowSize is passed on."""
        if isinstance(value, cls):
            return value
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise refuse(f"got {describe(value)}, {_ALLOWED}")
        unit, factor = _UNITS[match[2] if match[2] in _UNITS else match[2].removesuffix("s")]
        count = int(match[1]) * factor
        if not 1 <= count <= _LONGEST[unit]:
            raise refuse(f"got {describe(value)}, {_ALLOWED}, of at least one minute and at most 100 years")
        return cls(count, unit, " ".join(str(value).split()))

    def __str__(self) -> str:
        return self.text


SizeForm = Annotated[
    WindowSize,
    PlainValidator(WindowSize.parse),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": f"^{_FORM}$", "examples": ["5m", "3h", "1 day", "1 week", "1 month"]}),
]


class MetricWindow(Declaration):
    """The windows of a metric's results. `window: 3h` is short for `window: {size: 3h}`.

    A query merges them from stored parts. These are hours, or panes below an hour if a window boundary is not on the
    hour. So a change of the window needs no recompute unless its panes change.
    """

    size: SizeForm
    """The length of a window: a number of minutes, hours, days, weeks, months or years. Minutes and hours are counted
    from 1970 in UTC.
    Days begin at midnight in the `zone`, weeks on Monday, months and years on their first day.
    """

    every: SizeForm | None = None
    """The time from the start of a window to the start of the next one. If it is less than the size, windows overlap:
    `{size: 24h, every: 1h}` is the last 24 hours, at each hour. If left out, it is the size.
    """

    zone: Zone | None = None
    """The zone of days, weeks, months and years, such as `America/New_York`. If left out, it is UTC."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every is not None:
            self._check_every(self.size, self.every)
        if self.zone is not None and self.size.unit == "minute":
            raise refuse(
                f"got the zone {describe(self.zone)} with the size '{self.size}', allowed is a zone for days, weeks, "
                "months and years: minutes and hours are the same in every zone",
                "zone",
            )
        return self

    @staticmethod
    def _check_every(size: WindowSize, every: WindowSize) -> None:
        got = f"got every '{every}' with the size '{size}'"
        if every.unit != size.unit:
            units = {"minute": "minutes or hours", "day": "days or weeks", "month": "months or years"}[size.unit]
            hours = f"; for 24 hours at each hour, the size is {24 * size.count}h"
            hint = hours if (size.unit, every.unit) == ("day", "minute") else ""
            raise refuse(f"{got}, allowed are {units} for both{hint}", "every")
        if every.count > size.count:
            raise refuse(f"{got}, allowed is at most the size, so that each event is in a window", "every")
        if size.count > every.count * _MOST_OVERLAPPING:
            raise refuse(
                f"{got}, which puts an event into {-(-size.count // every.count):,} windows; "
                f"allowed are {_MOST_OVERLAPPING:,}: let them start less often",
                "every",
            )

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``window: 3h`` stands for ``window: {size: 3h}``."""
        return value if value is None or isinstance(value, dict | cls | SessionWindow) else {"size": value}

    @property
    def is_hour(self) -> bool:
        """Whether these are the hours of UTC, which results are kept by."""
        return (self.size.unit, self.size.count) == ("minute", 60) and self.every in (None, self.size)

    @property
    def pane(self) -> timedelta:
        """The length of the parts that the layers keep states of: the greatest that divides an hour and all windows."""
        return self.windows.pane

    @cached_property
    def windows(self) -> Window:
        """Their arithmetic."""
        size, every = self.size, self.every or self.size
        if size.unit == "minute":
            return HoppingWindow(size.count * _MINUTE, every.count * _MINUTE)
        zone = ZoneInfo(self.zone or "UTC")
        return CalendarWindow(size.count, every.count, size.unit, zone, _zone_pane(zone))

    def __str__(self) -> str:
        every = "" if self.every is None else f" every {self.every}"
        return f"{self.size}{every}{f' in {self.zone}' if self.zone else ''}"


def _tag(value: Any) -> str:
    if isinstance(value, dict):
        return "[size]" if value.keys().isdisjoint(SessionWindow.model_fields) else "[gap]"
    return "[gap]" if isinstance(value, SessionWindow) else "[size]"


WindowForm = Annotated[
    Annotated[MetricWindow, Tag("[size]")] | Annotated[SessionWindow, Tag("[gap]")],
    Discriminator(_tag),
    BeforeValidator(MetricWindow.from_short_form, json_schema_input_type=str | MetricWindow | SessionWindow),
]
"""Windows in their long or short form."""

HOUR_WINDOW = MetricWindow(size=WindowSize(60, "minute", "1h"))
"""The windows of a metric that declares none."""


@cache
def _zone_pane(zone: ZoneInfo) -> timedelta:
    """The greatest part of an hour that divides all offsets of ``zone`` from UTC since 2000."""
    moments = (_CHECKED_FROM + timedelta(days=30.5 * month) for month in range(_CHECKED_MONTHS))
    offsets = [(moment.astimezone(zone).utcoffset() or timedelta()) // _MINUTE for moment in moments]
    return reduce(gcd, offsets, HOURLY.size // _MINUTE) * _MINUTE
