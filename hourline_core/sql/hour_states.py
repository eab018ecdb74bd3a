"""In which state each hour of each metric is, as DuckDB SQL over a snapshot.

    final        covered, and nothing above the cutoff
    revised      covered, and provisional rows above the cutoff
    provisional  not covered
    missing      not known: it has events from before the metric was first computed, and no recompute has covered them
    blocked      the last recompute did not pass its audit: what was there before is served, and what has come since

An hour is here when its source has accepted an event in it. It is closed when the source's clock is ``grace`` past its
end.
"""

from datetime import datetime

from hourline_core.ledger.snapshot import MetricTables
from hourline_core.model import Source
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.windows import HOURLY

WEAKEST_FIRST = ("missing", "blocked", "provisional", "revised", "final")


def source_hours_sql(source: Source, sequence: int, now: datetime) -> str:
    """A query: hour, events, late (bigint), clock, closed — of one source up to ``sequence``.

    Reads ``hourline.progress_<source>``.

    ``now`` is the wall time; it closes hours where the source's clock says so.
    """
    clock = f"TIMESTAMPTZ '{sql_timestamp(now)}'" if source.clock == "wall" else "max(clock) OVER ()"
    closes_after = int(HOURLY.complete_after(source.grace).total_seconds())
    return f"""
        SELECT hour, sum(events)::BIGINT AS events, sum(late)::BIGINT AS late, any_value(clock) AS clock,
               hour + INTERVAL '{closes_after} seconds' <= any_value(clock) AS closed
        FROM (
            SELECT arrival.hour AS hour, arrival.events AS events, arrival.late AS late, clock
            FROM (SELECT hours, {clock} AS clock FROM hourline.progress_{source.name} WHERE sequence <= {sequence}),
                 UNNEST(hours) AS arrivals(arrival)
        )
        GROUP BY hour"""


def late_sql(source: Source, sequence: int) -> str:
    """A query: hour, sequence, events, arrived, clock — each micro-batch up to ``sequence`` that brought events of an
    hour that had closed already.

    ``arrived`` is when the micro-batch began, ``clock`` what the source's clock said then (UTC). Reads
    ``hourline.progress_<source>``.
    """
    clock = "started" if source.clock == "wall" else "lag(clock IGNORE NULLS) OVER (ORDER BY sequence)"
    return f"""
        SELECT arrival.hour AS hour, sequence, arrival.late AS events, started AS arrived, clock
        FROM (SELECT sequence, hours, started, {clock} AS clock FROM hourline.progress_{source.name} WHERE sequence <= {sequence}),
             UNNEST(hours) AS arrivals(arrival)
        WHERE arrival.late > 0"""


def metric_hours_sql(tables: MetricTables, sequence: int) -> str:
    """A query: source, metric, declaration, served, hour, state, events, late, cutoff (null: not covered), closed,
    blocked_cutoff (null: not blocked), expectations (the hash of those it was audited with), fresh (events have come
    since it was) — of one declaration of a metric.

    Up to ``sequence``. Reads ``hourline.progress_<source>``, ``hourline.source_hours_<source>``,
    ``hourline.provisional_<metric>_<declaration>`` and ``hourline.coverage``.
    """
    source, metric = tables.source, tables.metric
    progress = f"hourline.progress_{source.name}"
    own = f"metric = '{metric.name}' AND declaration = '{tables.declaration}'"
    unseen = f"""
        SELECT arrival.hour AS hour, max(sequence) AS last
        FROM {progress}, UNNEST(hours) AS arrivals(arrival) WHERE sequence < {tables.complete_from} AND sequence <= {sequence} GROUP BY ALL"""
    if tables.complete_from <= 1:  # as old as its source: progress, which is long, has no such rows
        unseen = "SELECT NULL::TIMESTAMPTZ AS hour, NULL::BIGINT AS last WHERE false"
    return f"""
        WITH unseen AS ({unseen}), above AS (
            SELECT hour, max(sequence) AS last FROM hourline.provisional_{tables.name}
            WHERE sequence <= {sequence} AND sequence >= {tables.complete_from} GROUP BY hour
        )
        SELECT
            '{source.name}' AS source, '{metric.name}' AS metric, '{tables.declaration}' AS declaration, {tables.served} AS served, h.hour,
            CASE
                WHEN unseen.last > coalesce(cutoff, -1) THEN 'missing'
                WHEN blocked_cutoff IS NOT NULL THEN 'blocked'
                WHEN cutoff IS NULL THEN 'provisional'
                WHEN above.last > cutoff THEN 'revised'
                ELSE 'final'
            END AS state,
            h.events, h.late, c.cutoff, h.closed, c.blocked_cutoff, c.expectations,
            coalesce(greatest(above.last, unseen.last) > c.blocked_cutoff, false) AS fresh
        FROM hourline.source_hours_{source.name} h
        LEFT JOIN (SELECT hour, cutoff, blocked_cutoff, expectations FROM hourline.coverage WHERE {own}) c USING (hour)
        LEFT JOIN unseen USING (hour)
        LEFT JOIN above USING (hour)"""
