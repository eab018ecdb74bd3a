"""The windows that hours are in, by walking through hours, or parts of them, one by one. No boundary is computed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from hourline_core.model.metric_window import MetricWindow, WindowForm
from hourline_core.model.session_window import SessionWindow

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
_MARGIN = 24 * 800
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY = date(1969, 12, 29)


@dataclass(frozen=True)
class Declared:
    """``count`` units in a window, of which one starts at each multiple of ``every``."""

    yaml: str
    unit: str
    count: int
    every: int
    zone: str = "UTC"
    step: timedelta = HOUR
    """The length that no boundary divides."""

    def number(self, moment: datetime) -> int:
        """The number of the unit that contains ``moment``."""
        local = moment.astimezone(ZoneInfo(self.zone))
        return {
            "minute": (moment - _EPOCH) // MINUTE,
            "hour": (moment - _EPOCH) // HOUR,
            "day": (local.date() - _MONDAY).days,
            "month": local.year * 12 + local.month - 1,
        }[self.unit]


DECLARED = [
    Declared("3h", "hour", 3, 3),
    Declared("{size: 6h, every: 2h}", "hour", 6, 2),
    Declared("{size: 24h, every: 1h}", "hour", 24, 1),
    Declared("{size: 5h, every: 3h}", "hour", 5, 3),
    Declared("1 day", "day", 1, 1),
    Declared("{size: 1 day, zone: America/New_York}", "day", 1, 1, "America/New_York"),
    Declared("{size: 3 days, every: 1 day, zone: America/New_York}", "day", 3, 1, "America/New_York"),
    Declared("{size: 1 week, zone: Pacific/Apia}", "day", 7, 7, "Pacific/Apia"),
    Declared("{size: 2 weeks, every: 1 day, zone: America/Sao_Paulo}", "day", 14, 1, "America/Sao_Paulo"),
    Declared("1 month", "month", 1, 1),
    Declared("{size: 1 year, every: 3 months, zone: Europe/Paris}", "month", 12, 3, "Europe/Paris"),
]

WITH_PANES = [
    Declared("5m", "minute", 5, 5, step=5 * MINUTE),
    Declared("7m", "minute", 7, 7, step=MINUTE),
    Declared("{size: 90m, every: 20m}", "minute", 90, 20, step=10 * MINUTE),
    Declared("{size: 24h, every: 15m}", "minute", 24 * 60, 15, step=15 * MINUTE),
    Declared("{size: 1 day, zone: Asia/Kolkata}", "day", 1, 1, "Asia/Kolkata", 30 * MINUTE),
    Declared("{size: 1 week, every: 1 day, zone: Asia/Kathmandu}", "day", 7, 1, "Asia/Kathmandu", 15 * MINUTE),
    Declared("{size: 1 day, zone: Australia/Lord_Howe}", "day", 1, 1, "Australia/Lord_Howe", 30 * MINUTE),
]
"""Windows with boundaries within an hour."""


def parse_window(yaml: str) -> MetricWindow | SessionWindow:
    """The windows that are declared so."""
    declared: MetricWindow | SessionWindow = TypeAdapter(WindowForm).validate_python(YAML(typ="safe").load(yaml))
    return declared


def windows_of(declared: Declared, hours: Iterable[datetime]) -> dict[datetime, datetime]:
    """The end, by start, of each window that contains one of ``hours``."""
    known = {hour + declared.step * part for hour in hours for part in range(HOUR // declared.step)}
    if not known:
        return {}
    first, count = min(known), (max(known) - min(known)) // declared.step
    margin = {"minute": 1500, "hour": 60, "day": 24 * 40, "month": _MARGIN}[declared.unit]
    moments = [first + declared.step * number for number in range(-margin, count + margin)]
    numbers = [declared.number(moment) for moment in moments]
    bounds: dict[int, datetime] = {}
    for moment, number in zip(moments, numbers, strict=True):
        bounds.setdefault(number, moment)
    touched = set()
    for moment in known:
        number = declared.number(moment)
        latest = number // declared.every * declared.every
        touched |= set(range(latest, number - declared.count, -declared.every))
    return {_first(bounds, start): _first(bounds, start + declared.count) for start in touched}


def _first(bounds: dict[int, datetime], number: int) -> datetime:
    """The first hour of a unit. A day that a zone left out has none: then it is that of the next one."""
    return next(bounds[one] for one in (number, number + 1) if one in bounds)
