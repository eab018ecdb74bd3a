"""Draws the overview's charts as paths of inline SVG. All hours of one state are one path, so four weeks take a few
hundred bytes.

An hour is 1 wide, and the chart is stretched to the page. Strokes are not stretched, so one bad hour among hundreds
stays visible.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isfinite, isnan

from batch_layer.reports.trends import Line, QualityRow, hour_of

HEIGHT = 100
"""The size of a curve's chart, in its own units."""

_STEPS = (1, 2, 3, 6, 12, 24, 48, 72, 96, 168, 336, 672, 1344)
"""The allowed distances of the marks of the axis, in hours."""
_MOST_MARKS = 6
"""The maximum number of these marks, unless the hours are more than the largest distance allows."""

_GAP = 24
"""The number of hours without a value over which a curve is drawn on. Nights may have none."""


@dataclass(frozen=True)
class Curve:
    """Values over the hours, and the bounds in which they were expected."""

    values: str
    band: str
    bad: str
    """A dot for each value that failed."""
    low: float
    high: float
    """The values at the lower and the upper edge of the chart. Values beyond are drawn at the edge."""


def cells(hours: Iterable[int], first: int, beyond: float, gap: float) -> str:
    """A path of rectangles for ``hours``. They stand out of the strip by ``beyond``, with a ``gap`` after each;
    hours are joined if it is 0.
    """
    places = sorted(hour - first for hour in hours)
    if gap:
        return "".join(f"M{place} {-beyond:g}h{1 - gap:g}V{1 + beyond:g}h-{1 - gap:g}z" for place in places)
    path = ""
    for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        stretch = [place for _, place in run]
        path += f"M{stretch[0]} {-beyond:g}h{len(stretch)}V{1 + beyond:g}h-{len(stretch)}z"
    return path


def ticks(hours: Iterable[int], first: int, beyond: float) -> str:
    """A path of upright strokes in the middle of each hour, which stand out of the strip by ``beyond``."""
    return "".join(f"M{hour - first}.5 {-beyond:g}V{1 + beyond:g}" for hour in sorted(hours))


def curve(line: Line, first: int) -> Curve | None:
    """The curve of the observed numbers of ``line``. None if there are none."""
    points = [(hour - first, line.findings[hour]) for hour in sorted(line.findings)]
    seen = [
        (place, finding) for place, finding in points if finding.observed is not None and isfinite(finding.observed)
    ]
    if not seen:
        return None
    low, high = _extent([finding for _, finding in seen])

    def level(value: float | None, missing: float) -> int:
        value = missing if value is None or isnan(value) else min(max(value, low), high)
        return round(3 + (HEIGHT - 6) * (1 - (value - low) / (high - low)))

    stretches: list[list[tuple[int, int]]] = []
    last = None
    for place, finding in seen:
        if last is None or place - last > _GAP:
            stretches.append([])
        stretches[-1].append((place, level(finding.observed, 0)))
        last = place
    bounded = [
        (place, level(finding.lower, low), level(finding.upper, high))
        for place, finding in seen
        if not (finding.lower is None and finding.upper is None)
    ]
    bad = "".join(f"M{place}.5 {level(finding.observed, 0)}h0" for place, finding in seen if not finding.success)
    return Curve("".join(_polyline(stretch) for stretch in stretches), _band(bounded), bad, low, high)


def date_marks(first: int, end: int) -> list[tuple[float, str]]:
    """The marks of the axis (0 to 1) and their labels: hours of the day for up to two days, else dates."""
    length = end - first
    step = next(step for step in _STEPS if length / step <= _MOST_MARKS or step == _STEPS[-1])
    form = "%H:%M" if step < 24 else "%-d %b"
    return [((hour - first) / length, f"{hour_of(hour):{form}}") for hour in range(first + -first % step, end, step)]


def _extent(findings: Sequence[QualityRow]) -> tuple[float, float]:
    """The lower and upper end of the axis. It contains all values that passed. Bounds and other values are left out
    if they would flatten these.
    """
    passed = [finding.observed or 0.0 for finding in findings if finding.success] or [
        finding.observed or 0.0 for finding in findings
    ]
    low, high = min(passed), max(passed)
    span = (high - low) or abs(high) * 0.2 or 1.0
    others = {
        value for finding in findings for value in (finding.lower, finding.upper, finding.observed) if value is not None
    }
    near = [value for value in others if low - 1.5 * span <= value <= high + 1.5 * span]
    low, high = min([low, *near]), max([high, *near])
    if low == high:
        low, high = low - span / 2, high + span / 2
    # A value further off is drawn beyond the rest.
    margin = (high - low) / 4
    return low - margin * any(value < low for value in others), high + margin * any(value > high for value in others)


def _polyline(points: list[tuple[int, int]]) -> str:
    if len(points) == 1:
        return f"M{points[0][0]} {points[0][1]}h1"
    # Of points at one level, the first and the last are enough.
    kept = [
        point
        for index, point in enumerate(points)
        if not 0 < index < len(points) - 1 or not points[index - 1][1] == point[1] == points[index + 1][1]
    ]
    return "M" + "L".join(f"{place}.5 {level}" for place, level in kept)


def _band(points: list[tuple[int, int, int]]) -> str:
    path = ""
    for (lower, upper), run in groupby(points, lambda point: (point[1], point[2])):
        stretch = [place for place, _, _ in run]
        parts = [
            stretch[0],
            *(place for before, after in pairwise(stretch) if after - before > _GAP for place in (before + 1, after)),
            stretch[-1] + 1,
        ]
        for start, end in zip(parts[::2], parts[1::2], strict=True):
            path += f"M{start} {upper}H{end}V{lower}H{start}z"
    return path
