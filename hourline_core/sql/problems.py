"""Reads the problems of a project from its quality table, in DuckDB over a snapshot."""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa

from hourline_core.ledger.overlapping_problems import tell_overlaps
from hourline_core.ledger.problem_grouping import group_failures
from hourline_core.ledger.problems import (
    HELD,
    UNKNOWN,
    FailedHour,
    Identity,
    Problems,
    Readers,
    Usual,
    read_row,
)
from hourline_core.ledger.report_pages import SHOWN
from hourline_core.sql.literals import literal

ROWS = 5
"""The maximum number of failing rows that are read of each hour."""

_BLOCKED = pa.schema({"metric": pa.string(), "hour": pa.timestamp("us", tz="UTC"), "source": pa.string()})

_IDENTITY = (
    "f.source, f.metric, f.expectation, coalesce(f.about, ''), "
    "if(f.origin = 'user', coalesce(f.parameters, ''), ''), f.origin, f.severity, coalesce(f.condition, ''), "
    "coalesce(f.unit, 'hour')"
)
"""The columns of Identity, of a finding ``f``."""
_PARTS = len(Identity.__dataclass_fields__)

_SHOWN = f"""
    SELECT source, max(hour) - INTERVAL '{int(SHOWN.total_seconds())} seconds' AS before FROM found GROUP BY source"""

_NO_HOURS = (
    "(SELECT NULL::VARCHAR AS metric, NULL::TIMESTAMPTZ AS hour, NULL::BIGINT AS cutoff, NULL::VARCHAR AS state, "
    "false AS served WHERE false)"
)
"""Instead of ``hourline.metric_hours`` where no hour of it is asked for."""


def read_problems(
    database: duckdb.DuckDBPyConnection,
    blocked: Mapping[tuple[str, datetime], str],
    quality: str = "hourline.quality",
    *,
    with_usual: bool = True,
) -> Problems:
    """The problems of all metrics, from the rows of ``quality`` (QUALITY_SCHEMA), a table or view. The usual values are
    a third of the work, and read if they are asked for (``with_usual``).

    ``blocked`` gives the source of each (metric, hour in UTC) that is blocked now. What readers see of these is read
    from ``hourline.metric_hours``.
    """
    cells = [{"metric": metric, "hour": hour, "source": source} for (metric, hour), source in blocked.items()]
    database.register("_blocked", pa.Table.from_pylist(cells, _BLOCKED))
    failed: dict[tuple[Any, ...], list[FailedHour]] = defaultdict(list)
    hours = "hourline.metric_hours" if blocked else _NO_HOURS
    for row in database.execute(_failed_sql(quality, hours)).fetchall():
        failed[row[:_PARTS]].append(_failed_hour(*row[_PARTS:]))
    problems = group_failures({Identity(*of): hours for of, hours in failed.items()})
    usual = _read_usual(database, quality, {problem.of.about for problem in problems.open}) if with_usual else {}
    known = [*tell_overlaps(problems.blocking), *problems.warning]
    return replace(problems, open=[replace(problem, usual=usual.get(problem.of)) for problem in known])


def _failed_sql(quality: str, hours: str) -> str:
    """A query: each finding that failed, for each metric that it concerns, in the order of publications. A blocked hour
    whose findings are no longer kept, or which waits for another one, has a row that stands for them. Those that warned
    in hours that are no longer shown are left out.
    """
    # An expectation on the events of a source concerns each of its metrics that was audited with it.
    return f"""
        WITH found AS NOT MATERIALIZED (FROM {quality}),
        failing AS MATERIALIZED (FROM found WHERE success IS NOT TRUE),
        audits AS (
            SELECT *, lead(publication) OVER (PARTITION BY metric, hour ORDER BY publication) AS ended
            FROM (
                SELECT DISTINCT source, metric, hour, publication FROM found WHERE metric IS NOT NULL
                AND (source, hour) IN (SELECT source, hour FROM failing UNION SELECT source, hour FROM _blocked)
            )
        ),
        shown AS ({_SHOWN}),
        states AS (
            SELECT metric, hour, cutoff, state FROM {hours} SEMI JOIN _blocked USING (metric, hour)
            WHERE served
        ),
        failed AS (
            SELECT {_IDENTITY}, a.metric AS of_metric, a.hour, a.publication, a.ended, f.audited, f.observed, f.lower,
                   f.upper, f.unexpected, f.found, if(a.ended IS NULL, f.rows[:{ROWS}], NULL) AS rows
            FROM failing f
            JOIN audits a ON a.publication = f.publication AND a.hour = f.hour AND a.source = f.source
                AND coalesce(f.metric, a.metric) = a.metric
            JOIN shown s ON s.source = f.source
            WHERE f.severity = 'fail' OR f.hour > s.before
        ),
        forgotten AS (
            SELECT b.source, b.metric, if(a.hour IS NULL, '{UNKNOWN}', '{HELD}'), '', '', 'declaration', 'fail', '',
                   'hour', b.metric, b.hour, coalesce(a.publication, 0), NULL, NULL, NULL, NULL, NULL, NULL,
                   if(a.hour IS NULL, 'the findings of its audit are no longer kept',
                      'it passed, but events move between it and an hour that did not'), NULL
            FROM _blocked b ANTI JOIN (FROM failed WHERE ended IS NULL AND severity = 'fail') f
                ON f.of_metric = b.metric AND f.hour = b.hour
            LEFT JOIN (FROM audits WHERE ended IS NULL) a ON a.metric = b.metric AND a.hour = b.hour
        )
        SELECT f.* REPLACE (epoch_us(f.hour) AS hour, epoch_us(f.audited) AS audited),
               f.ended IS NULL AND (f.severity <> 'fail' OR b.hour IS NOT NULL) AS is_open,
               CASE WHEN f.severity <> 'fail' AND b.hour IS NULL THEN 'this result'
                    WHEN h.cutoff IS NOT NULL THEN 'earlier result'
                    WHEN h.state = 'missing' THEN 'nothing yet' ELSE 'provisional result' END AS readers
        FROM (FROM failed UNION ALL FROM forgotten) f
        LEFT JOIN _blocked b ON b.metric = f.of_metric AND b.hour = f.hour
        LEFT JOIN states h ON h.metric = f.of_metric AND h.hour = f.hour
        ORDER BY f.publication, f.hour, f.of_metric"""


def _failed_hour(
    metric: str,
    hour: int,
    publication: int,
    ended: int | None,
    audited: int | None,
    observed: float | None,
    lower: float | None,
    upper: float | None,
    unexpected: int | None,
    found: str | None,
    rows: list[str] | None,
    is_open: bool,
    readers: Readers,
) -> FailedHour:
    return FailedHour(
        metric,
        datetime.fromtimestamp(hour / 1e6, UTC),
        publication,
        publication if ended is None else ended,
        None if audited is None else datetime.fromtimestamp(audited / 1e6, UTC),
        observed,
        lower,
        upper,
        unexpected,
        found or "",
        [read_row(text) for text in rows or []],
        readers,
        is_open,
    )


def _read_usual(database: duckdb.DuckDBPyConnection, quality: str, about: AbstractSet[str]) -> dict[Identity, Usual]:
    """The usual values of each expectation that has failed and is on one of ``about``, if it has numbers."""
    if not about:
        return {}
    ours = f"coalesce(about, '') IN ({', '.join(map(literal, sorted(about)))})"
    rows = database.execute(f"""
        WITH found AS NOT MATERIALIZED (FROM {quality}), shown AS ({_SHOWN})
        SELECT {_IDENTITY}, quantile_cont(f.observed, [0.05, 0.5, 0.95])
        FROM (FROM found WHERE {ours}) f
        JOIN shown USING (source)
        SEMI JOIN (
            SELECT DISTINCT expectation, coalesce(about, '') AS about FROM found WHERE success IS NOT TRUE AND {ours}
        ) failing ON failing.expectation = f.expectation AND failing.about = coalesce(f.about, '')
        WHERE f.success AND isfinite(f.observed) AND f.hour > shown.before
        GROUP BY ALL""").fetchall()
    return {Identity(*row[:_PARTS]): Usual(*row[_PARTS]) for row in rows}
