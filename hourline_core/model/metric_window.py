"""The declared windows of a metric: a size, how often one starts, and a zone."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.times import Zone
from hourline_core.model.windows import CalendarWindow, HoppingWindow, Window

Unit = Literal["hour", "day", "month"]

_UNITS: dict[str, tuple[Unit, int]] = {
    "h": ("hour", 1),
    "hour": ("hour", 1),
    "d": ("day", 1),
    "day": ("day", 1),
    "w": ("day", 7),
    "week": ("day", 7),
    "month": ("month", 1),
    "year": ("month", 12),
}
_FORM = r"\s*(\d+)\s*(h|d|w|(?:hour|day|week|month|year)s?)\s*"
_SIZE = re.compile(_FORM, re.ASCII)
_ALLOWED = "allowed are hours, days, weeks, months and years, such as 3h, 1 day or 1 month"
_LONGEST: dict[Unit, int] = {"hour": 876_000, "day": 36_500, "month": 1_200}
"""A century: it keeps the ends of windows within the years that a datetime can have."""
_MOST_OVERLAPPING = 1_000
"""The maximum number of windows that contain one event. Reading merges each hour that often."""
_CHECKED_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_CHECKED_MONTHS = 38 * 12


@dataclass(frozen=True)
class WindowSize:
    """A number of hours, days or months. A week is seven days, and a year twelve months."""

    count: int
    unit: Unit
    text: str
    """As it is declared."""

    @classmethod
    def parse(cls, value: object) -> "WindowSize":
        """Parse ``3h``, ``1 day``, ``2 weeks``, ``1 month`` or ``1 year``. A WindowSize is passed on."""
        if isinstance(value, cls):
            return value
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise refuse(f"got {describe(value)}, {_ALLOWED}")
        unit, factor = _UNITS[match[2] if match[2] in _UNITS else match[2].removesuffix("s")]
        count = int(match[1]) * factor
        if not 1 <= count <= _LONGEST[unit]:
            raise refuse(f"got {describe(value)}, {_ALLOWED}, of at least one hour and at most 100 years")
        return cls(count, unit, " ".join(str(value).split()))

    def __str__(self) -> str:
        return self.text


SizeForm = Annotated[
    WindowSize,
    PlainValidator(WindowSize.parse),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": f"^{_FORM}$", "examples": ["3h", "1 day", "1 week", "1 month"]}),
]


class MetricWindow(Declaration):
    """The windows that a metric has results for. `window: 3h` is short for `window: {size: 3h}`.

    They are merged from the results of their hours when they are read. So a change of the window needs no recompute,
    and an event that comes late revises just the windows that contain its hour.
    """

    size: SizeForm
    """The length of a window: a number of hours, days, weeks, months or years. Hours are counted from 1970 in UTC.
    Days begin at midnight in the `zone`, weeks on Monday, months and years on their first day.
    """

    every: SizeForm | None = None
    """The time from the start of a window to the start of the next one. If it is less than the size, windows overlap:
    `{size: 24h, every: 1h}` is the last 24 hours, at each hour. If left out, it is the size.
    """

    zone: Zone | None = None
    """The zone of days, weeks, months and years, such as `America/New_York`. Its offset from UTC must be whole hours
    since 2000. If left out, it is UTC.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every is not None:
            self._check_every(self.size, self.every)
        if self.zone is not None:
            self._check_zone(self.zone)
        return self

    @staticmethod
    def _check_every(size: WindowSize, every: WindowSize) -> None:
        got = f"got every '{every}' with the size '{size}'"
        if every.unit != size.unit:
            units = {"hour": "hours", "day": "days or weeks", "month": "months or years"}[size.unit]
            hours = f"; for 24 hours at each hour, the size is {24 * size.count}h"
            hint = hours if (size.unit, every.unit) == ("day", "hour") else ""
            raise refuse(f"{got}, allowed are {units} for both{hint}", "every")
        if every.count > size.count:
            raise refuse(f"{got}, allowed is at most the size, so that each event is in a window", "every")
        if size.count > every.count * _MOST_OVERLAPPING:
            raise refuse(
                f"{got}, which puts an event into {-(-size.count // every.count):,} windows; "
                f"allowed are {_MOST_OVERLAPPING:,}: let them start less often",
                "every",
            )

    def _check_zone(self, zone: str) -> None:
        if self.size.unit == "hour":
            raise refuse(
                f"got the zone {describe(zone)} with the size '{self.size}', allowed is a zone for days, weeks, "
                "months and years: hours are the same in every zone",
                "zone",
            )
        for month in range(_CHECKED_MONTHS):
            offset = (_CHECKED_FROM + timedelta(days=30.5 * month)).astimezone(ZoneInfo(zone)).utcoffset()
            if offset is not None and offset % timedelta(hours=1):
                raise refuse(
                    f"got {describe(zone)}, allowed are zones whose offset from UTC is whole hours: "
                    f"a window is made of hours of UTC, and this zone's days begin within one",
                    "zone",
                )

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``window: 3h`` stands for ``window: {size: 3h}``."""
        return value if value is None or isinstance(value, dict | cls) else {"size": value}

    @property
    def is_hour(self) -> bool:
        """Whether these are the hours of UTC, which results are kept by."""
        return (self.size.unit, self.size.count) == ("hour", 1)

    @cached_property
    def windows(self) -> Window:
        """Their arithmetic."""
        size, every = self.size, self.every or self.size
        if size.unit == "hour":
            return HoppingWindow(timedelta(hours=size.count), timedelta(hours=every.count))
        return CalendarWindow(size.count, every.count, size.unit, ZoneInfo(self.zone or "UTC"))

    def __str__(self) -> str:
        every = "" if self.every is None else f" every {self.every}"
        return f"{self.size}{every}{f' in {self.zone}' if self.zone else ''}"


WindowForm = Annotated[
    MetricWindow,
    BeforeValidator(MetricWindow.from_short_form, json_schema_input_type=str | MetricWindow),
]
"""Windows in their long or short form."""

HOUR_WINDOW = MetricWindow(size=WindowSize(1, "hour", "1h"))
"""The windows of a metric that declares none."""
