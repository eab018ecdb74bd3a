"""Reports the newest hours of each source up to its clock, and the hours after it."""

from collections.abc import Iterable
from datetime import datetime

from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.source_status import SourceStatus


class HourStatus(Described):
    """One hour of one source."""

    hour: datetime
    """The hour (UTC)."""
    source: str
    """The name of the source."""
    state: str | None
    """The weakest state of its metrics. Null: it has no metric."""
    events: int
    """The number of accepted events in the hour."""
    late: int
    """The number of them that arrived after the hour had closed."""
    closed: bool
    """Whether the hour has closed."""
    report: str | None
    """The page of an hour's newest audit: of a blocked metric, or else of one with a warning. Null: there
    is no page, or it is no longer kept.
    """


class HoursAhead(Described):
    """The hours of a source after the clocks of all its partitions. They come from records with a wrong event time, or
    from a leap that further records must confirm.
    """

    source: str
    """The name of the source."""
    hours: int
    """The number of hours."""
    events: int
    """The number of accepted events in them."""
    first: datetime
    """The first of them (UTC)."""
    last: datetime
    """The last of them (UTC)."""


def list_newest_hours(connection: Connection, sources: Iterable[SourceStatus], last: int) -> list[HourStatus]:
    """The ``last`` hours of each source, up to the newest clock of its partitions. 0: none."""
    if not last:
        return []
    newest = (
        f"SELECT source, unnest(max(hour, {last})) AS hour FROM ({_hours_of(sources)}) WHERE reached GROUP BY source"
    )
    # The states of a year of hours are not computed to be left out.
    ((first,),) = connection.sql(f"SELECT min(hour) FROM ({newest})").fetchall()
    if first is None:
        return []
    rows = connection.sql(
        f"SELECT n.hour, n.source, h.state, h.events, h.late, h.closed FROM ({newest}) n "
        f"JOIN (FROM hours WHERE kind = 'source' AND hour >= {literal(first)}) h ON h.name = n.source "
        "AND h.hour = n.hour ORDER BY n.source, n.hour"
    )
    found = rows.to_arrow_table().to_pylist()
    pages = _pages(connection, [row["hour"] for row in found])
    return [HourStatus(**row, report=pages.get((row["source"], row["hour"]))) for row in found]


def list_hours_ahead(connection: Connection, sources: Iterable[SourceStatus]) -> list[HoursAhead]:
    """The sources that have hours after that."""
    rows = connection.sql(
        "SELECT source, count(*) AS hours, sum(events)::BIGINT AS events, min(hour) AS first, max(hour) AS last "
        f"FROM ({_hours_of(sources)}) WHERE NOT reached GROUP BY source ORDER BY source"
    )
    return [HoursAhead(**row) for row in rows.to_arrow_table().to_pylist()]


def _hours_of(sources: Iterable[SourceStatus]) -> str:
    """A query: source, hour, events, reached (not after the newest clock of its partitions) of each hour. A source may
    have hours and no clock: decoding anew has accepted what was rejected when it arrived.
    """
    parts = [
        "SELECT NULL::VARCHAR AS source, NULL::TIMESTAMPTZ AS hour, NULL::BIGINT AS events, true AS reached WHERE false"
    ]
    for source in sources:
        if source.sequence:
            clocks = [clock for clock in (source.clock, *(known.clock for known in source.partitions)) if clock]
            reached = f"hour <= {literal(max(clocks))}" if clocks else "true"
            parts.append(
                f"SELECT {literal(source.source)}, hour, events, {reached} FROM hourline.source_hours_{source.source}"
            )
    return " UNION ALL ".join(parts)


def _pages(connection: Connection, hours: list[datetime]) -> dict[tuple[str, datetime], str]:
    """By source and hour, the page of its newest audit."""
    if not hours:
        return {}
    rows = connection.sql(f"""
        WITH audits AS (
            SELECT source, hour, metric, declaration, publication, bool_and(success) AS passed FROM hourline.quality
            WHERE hour >= {literal(min(hours))} AND origin <> 'person' AND metric IS NOT NULL GROUP BY ALL
        ), newest AS (FROM audits QUALIFY publication = max(publication) OVER (PARTITION BY metric, declaration, hour))
        SELECT n.source, n.hour, n.metric, n.publication
        FROM newest n JOIN (FROM hourline.metric_hours WHERE hour >= {literal(min(hours))}) h
        USING (metric, declaration, hour)
        QUALIFY row_number() OVER (
            PARTITION BY n.source, n.hour ORDER BY h.blocked_cutoff NULLS LAST, passed, n.publication DESC, n.metric
        ) = 1
        """).fetchall()
    site = report_site(connection.project)
    addressed = {
        (source, hour): site / page_path(publication, page_name(source, metric))
        for source, hour, metric, publication in rows
    }
    return {key: str(page) for key, page in addressed.items() if page.is_file()}
