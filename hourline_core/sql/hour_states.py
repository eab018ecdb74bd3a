"""DuckDB SQL for the state of each hour of each metric, over a snapshot.

    final        covered, and nothing above the cutoff
    revised      covered, and provisional rows above the cutoff
    provisional  not covered
    stale        covered, and its events meet other rows of a lookup since; or, covered or not, the answer still counts
                 events that were taken back
    missing      not known: it has events from before the metric was first computed, and no recompute has covered them
    blocked      the last recompute did not pass its audit: the earlier result is served, with all later events
    incomplete   would be provisional, stale, revised or final, but lost records may belong to it, and nobody has
                 confirmed it

An hour has a row once its source has accepted an event in it, or its source's clock has passed it without any: see
``source_hours_sql``. It is closed when the source's clock is ``grace`` past its end.
"""

from collections.abc import Iterable

from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.hour_state import WEAKEST_FIRST
from hourline_core.sql.coverage import cutoffs_sql
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import last_arrivals_sql, last_taken_back_sql

_NO_HOURS = """
    SELECT NULL::VARCHAR AS source, NULL::VARCHAR AS metric, NULL::VARCHAR AS declaration, NULL::BOOLEAN AS served,
           NULL::TIMESTAMPTZ AS hour, NULL::VARCHAR AS state, NULL::BIGINT AS events, NULL::BIGINT AS late,
           NULL::BIGINT AS cutoff, NULL::BOOLEAN AS closed,
           NULL::BIGINT AS blocked_cutoff, NULL::VARCHAR AS expectations, NULL::BOOLEAN AS fresh,
           NULL::VARCHAR AS changed_lookups, NULL::VARCHAR AS counted
    WHERE false"""

_STATES = f"[{', '.join(map(literal, WEAKEST_FIRST))}]"


def weakest_sql() -> str:
    """An aggregate: the weakest ``state`` of the rows."""
    return f"({_STATES})[min({weakness_sql()})]"


def weakness_sql() -> str:
    """The place of ``state`` among all states, from the weakest on."""
    return f"list_position({_STATES}, state)"


def metric_hours_sql(declarations: Iterable[MetricTables]) -> str:
    """A query: source, metric, declaration, served, and the columns of ``hour_states_sql``, of these declarations. It
    reads ``hourline.hours_<metric>_<declaration>``.
    """
    parts = [
        f"SELECT {literal(tables.source.name)} AS source, {literal(tables.metric.name)} AS metric, "
        f"{literal(tables.declaration)} AS declaration, {tables.served} AS served, * FROM hourline.hours_{tables.name}"
        for tables in declarations
    ]
    return " UNION ALL ".join(f"({part})" for part in [_NO_HOURS, *parts])


def hour_states_sql(tables: MetricTables, sequence: int, has_gaps: bool) -> str:
    """A query: hour, state, events, late, cutoff (null: not covered), closed, blocked_cutoff (null: not blocked),
    expectations (the hash of those it was audited with), fresh (events have come since it was), changed_lookups (null:
    none), counted (the state without regard to gaps) — of one declaration of a metric.

    Up to ``sequence``. Reads ``hourline.progress_<source>``, ``hourline.source_hours_<source>``,
    ``hourline.provisional_<metric>_<declaration>``, ``hourline.coverage``, and ``hourline.gaps_<source>`` if the source
    ``has_gaps``.
    """
    source = tables.source
    in_gap = f"""EXISTS (
        FROM hourline.gaps_{source.name} g WHERE g.confirmed IS NULL
        AND h.hour BETWEEN coalesce(g.first_hour, h.hour) AND g.last_hour)"""
    state = f"if(counted NOT IN ('missing', 'blocked') AND {in_gap}, 'incomplete', counted)" if has_gaps else "counted"
    counted = _counted_sql(tables, sequence)
    return f"""
        SELECT hour, {state} AS state, events, late, cutoff, closed, blocked_cutoff, expectations, fresh,
               changed_lookups, counted
        FROM ({counted}) h"""


def _counted_sql(tables: MetricTables, sequence: int) -> str:
    """The query of ``hour_states_sql`` without ``state``."""
    source = tables.source
    unseen = last_arrivals_sql(source, sequence, tables.complete_from)
    return f"""
        WITH unseen AS ({unseen}), above AS (
            SELECT hour, max(sequence) AS last FROM hourline.provisional_{tables.name}
            WHERE sequence <= {sequence} AND sequence >= {tables.complete_from} GROUP BY hour
        ), taken_back AS ({last_taken_back_sql(source, sequence)})
        SELECT
            h.hour,
            CASE
                WHEN unseen.last > coalesce(cutoff, {NO_CUTOFF}) THEN 'missing'
                WHEN blocked_cutoff IS NOT NULL THEN 'blocked'
                WHEN taken_back.last > coalesce(cutoff, {NO_CUTOFF}) THEN 'stale'
                WHEN cutoff IS NULL THEN 'provisional'
                WHEN changed_lookups IS NOT NULL THEN 'stale'
                WHEN above.last > cutoff THEN 'revised'
                ELSE 'final'
            END AS counted,
            h.events, h.late, c.cutoff, h.closed, c.blocked_cutoff, c.expectations,
            coalesce(greatest(above.last, unseen.last, taken_back.last) > c.blocked_cutoff, false) AS fresh,
            c.changed_lookups
        FROM hourline.source_hours_{source.name} h
        LEFT JOIN ({cutoffs_sql(tables)}) c USING (hour)
        LEFT JOIN unseen USING (hour)
        LEFT JOIN above USING (hour)
        LEFT JOIN taken_back USING (hour)"""
