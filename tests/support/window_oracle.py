"""The windows that hours are in, by walking through hours one by one. No boundary is computed."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from hourline_core.model.metric_window import MetricWindow, WindowForm

HOUR = timedelta(hours=1)
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

    def number(self, hour: datetime) -> int:
        """The number of the unit that contains ``hour``."""
        local = hour.astimezone(ZoneInfo(self.zone))
        return {
            "hour": (hour - _EPOCH) // HOUR,
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


def parse_window(yaml: str) -> MetricWindow:
    """The windows that are declared so."""
    declared: MetricWindow = TypeAdapter(WindowForm).validate_python(YAML(typ="safe").load(yaml))
    return declared


def windows_of(declared: Declared, hours: Iterable[datetime]) -> dict[datetime, datetime]:
    """The end, by start, of each window that contains one of ``hours``."""
    known = set(hours)
    if not known:
        return {}
    first, count = min(known), int((max(known) - min(known)) / HOUR)
    margin = {"hour": 60, "day": 24 * 20, "month": _MARGIN}[declared.unit]
    all_hours = [first + HOUR * number for number in range(-margin, count + margin)]
    numbers = [declared.number(hour) for hour in all_hours]
    bounds: dict[int, datetime] = {}
    for hour, number in zip(all_hours, numbers, strict=True):
        bounds.setdefault(number, hour)
    touched: defaultdict[int, list[datetime]] = defaultdict(list)
    for hour in known:
        number = declared.number(hour)
        latest = number // declared.every * declared.every
        for start in range(latest, number - declared.count, -declared.every):
            touched[start].append(hour)
    return {_first(bounds, start): _first(bounds, start + declared.count) for start in touched}


def _first(bounds: dict[int, datetime], number: int) -> datetime:
    """The first hour of a unit. A day that a zone left out has none: then it is that of the next one."""
    return next(bounds[one] for one in (number, number + 1) if one in bounds)
