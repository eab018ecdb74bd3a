"""Writes the page of each trend: the expectations of a metric, or of a source's events, over the last four weeks. The
overview has a row for each.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from batch_layer.reports.site import templates, write
from batch_layer.reports.trend_views import Hover, Strip, describe_hour, hours_by_state, hovered, strip, trend_view
from batch_layer.reports.trends import Trend, hour_of
from hourline_core.ledger.report_pages import anchor, page_name, page_path
from hourline_core.model import Project
from hourline_core.model.natural_order import natural_key

_FOLDER = "trends"
_WORST = ("blocked", "failed", "accepted", "warned")


@dataclass(frozen=True)
class TrendRow:
    """What the overview shows of a trend."""

    title: str
    kind: str
    address: str
    counts: list[tuple[str, int]]
    strip: Strip
    hours: int
    need: tuple[object, ...]
    """A key that sorts rows: those with the worst states first, then by name."""
    passed: bool
    """Whether every hour has passed."""


def trend_path(source: str, metric: str | None) -> str:
    """The address of the page of a trend within the site."""
    return f"{_FOLDER}/{page_name(source, metric)}.html"


def describe_trend(trend: Trend) -> TrendRow:
    """The row of a trend."""
    by_state = hours_by_state(trend)
    counts = [(state, len(hours)) for state, hours in by_state.items() if hours]
    names = natural_key(trend.source), trend.metric is not None, natural_key(trend.metric or "")
    return TrendRow(
        title=trend.metric or trend.source,
        kind=f"metric of {trend.source}" if trend.metric else "events",
        address=trend_path(trend.source, trend.metric),
        counts=counts,
        strip=strip(by_state, trend.first, trend.end - trend.first),
        hours=trend.end - trend.first,
        need=(*(-len(by_state[state]) for state in _WORST), *names),
        passed=[state for state, _ in counts] == ["passed"],
    )


def write_trends(site: Path, project: Project, trends: Iterable[Trend], changed: Collection[str] | None) -> None:
    """Write the pages of ``trends`` of ``project``: of the sources in ``changed`` (None: of all), and those that are
    not there. Remove the pages of others. Raises OSError.
    """
    known = set()
    for trend in trends:
        path = trend_path(trend.source, trend.metric)
        known.add(site / path)
        if changed is None or trend.source in changed or not (site / path).is_file():
            view = trend_view(project, trend, trend.lines, _hovers(site, trend))
            write(site, path, templates().get_template("trend.html").render(trend=view))
    for page in (site / _FOLDER).glob("*.html"):
        if page not in known:
            page.unlink(missing_ok=True)


def _hovers(site: Path, trend: Trend) -> list[Hover]:
    name = page_name(trend.source, trend.metric)
    pages = {publication: page_path(publication, name) for publication in set(trend.publications.values())}
    there = {publication: f"../{path}" for publication, path in pages.items() if (site / path).is_file()}
    return [
        Hover(
            hour - trend.first,
            describe_hour(
                hour, [line.findings[hour] for line in trend.lines if hour in line.findings], trend.states[hour]
            ),
            there.get(publication) and f"{there[publication]}#{anchor(hour_of(hour))}",
        )
        for hour in hovered(trend.states)
        for publication in [trend.publications[hour]]
    ]
