"""Makes a finding in words, of the severity that is declared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hourline_core.findings.facts import Reason
from hourline_core.ledger.finding import Finding
from hourline_core.model.finding_bounds import Bounds, severity_of

_TOLD = 3
"""The maximum number of reasons, or of other things that are alike, that one finding names."""


@dataclass(frozen=True)
class Found:
    """What was found, before its severity is known."""

    kind: str
    first: datetime
    last: datetime
    sentence: str
    remedy: str
    numbers: Mapping[str, Any]
    example: str | None = None


def with_severities(found: Iterable[Found | None], source: str | None, bounds: Bounds) -> list[Finding]:
    """The findings of ``found``, without those that are off by the declared ``bounds``."""
    return [
        Finding(
            one.kind, source, severity, one.first, one.last, one.sentence, one.remedy, dict(one.numbers), one.example
        )
        for one in found
        if one and (severity := severity_of(bounds, one.kind)) != "off"
    ]


def reasons_text(reasons: Iterable[Reason]) -> str:
    """``1,180 × field 'price': got …; 24 × invalid JSON``."""
    return listed([f"{one.records:,} × {one.words}" for one in reasons], "; ")


def listed(items: list[str], between: str = ", ") -> str:
    """Some of the items, and the number of the others."""
    more = [f"{len(items) - _TOLD:,} more"] if len(items) > _TOLD else []
    return between.join([*items[:_TOLD], *more])


def minute(moment: datetime) -> str:
    """``2026-03-02 05:14 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def roughly(time: timedelta) -> str:
    """A time in its two largest units: ``3d 4h``, ``2h 5m``, ``40s``."""
    seconds = int(time.total_seconds())
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "m")]
    told = [f"{number}{unit}" for number, unit in parts if number][:2]
    return " ".join(told) or f"{seconds}s"


def percent(share: float) -> str:
    """``12.5 %``."""
    return f"{share:.1%}".replace("%", " %").replace(".0 ", " ")
