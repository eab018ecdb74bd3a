"""Which windows have become final without a publication: their last hour lies in a long silence, which has none."""

from collections.abc import Mapping
from datetime import datetime

from hourline_core.feed.closed_hours import closed_until
from hourline_core.feed.confirmed_gaps import ConfirmedGaps
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.reports.hour_summary import read_clocks

Span = tuple[datetime, datetime]


def closed_hours(connection: Connection) -> dict[str, datetime]:
    """By source, the end of the last hour that has closed (UTC). Sources without an event are left out."""
    sources = connection.project.sources
    return {name: closed_until(sources[name], clock) for name, clock in read_clocks(connection).items()}


def silent_windows(
    connection: Connection, closed: Mapping[str, datetime], gaps: ConfirmedGaps
) -> dict[str, list[Span]]:
    """By metric, the start and end (exclusive, UTC) of each final window that ends in a long silence, in an hour that
    has closed since the hours up to ``closed`` had, by source. And of each one that shares time with a long silence
    that ``gaps`` belong to, which were confirmed since. Sessions are left out. Raises TableError.

    Of a source that ``closed`` does not name, only the gaps count. A moment after the last closed hour is one in tables
    that were deleted, so nothing has closed since.
    """
    found: dict[str, list[Span]] = {}
    with connection.naming_damage():
        for source, known in connection.snapshot.progress.items():
            news = []
            if source in closed:
                after = literal(closed[source])
                news.append(f"window_end > silence_start AND window_end <= silence_end AND window_end > {after}")
            if known.has_gaps and source in gaps.sequences:
                connection.attached(f"hourline.gaps_{source}")
                news.append(f"""window_end > silence_start AND window_start < silence_end AND EXISTS (
                    FROM hourline.gaps_{source} g WHERE g.sequence IN ({", ".join(map(str, gaps.sequences[source]))})
                    AND g.last_hour >= silence_start AND coalesce(g.first_hour, silence_start) < silence_end)""")
            silences = f"FROM hourline.long_silences_{source}"
            if not news or not connection.attached(f"hourline.long_silences_{source}").execute(silences).fetchone():
                continue
            rows = connection.sql(
                f"""SELECT metric, window_start, window_end FROM windows w
                    WHERE w.source = {literal(source)} AND w.state = 'final'
                    AND EXISTS ({silences} WHERE ({") OR (".join(news)})) ORDER BY ALL"""
            ).fetchall()
            for metric, start, end in rows:
                if not connection.project.all_metrics[metric].session:
                    found.setdefault(metric, []).append((start, end))
    return found
