"""DuckDB SQL for sessions: the rows of each, and the list of them.

A session follows from the events, so it is found among the rows of ``<metric>_states``. Each of these rows has the
events of one group in one pane, which is no longer than the gap. So a session is a chain of rows of one group in which
none begins more than the gap after the end of the one before.
"""

from datetime import UTC, datetime, timedelta

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.hours import HOUR, HourRange
from hourline_core.model.session_window import SessionWindow
from hourline_core.sql.hour_states import weakest_sql, weakness_sql
from hourline_core.sql.literals import identifier, literal

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HOUR_MICROS = HOUR // _MICROSECOND


def session_rows_sql(tables: MetricTables, session: SessionWindow, starts: HourRange | None = None) -> str:
    """A query: window_start, window_end, state, _weakest_hour and _closed of the session, and the other columns of the
    view ``<metric>_states``: a row for each row of that view. If only sessions with a start in ``starts`` are wanted,
    it reads no more than these need. Then other sessions may be wrong.

    A session begins with its first event, and ends with the gap after its last one. Its state is the weakest of the
    hours in which an event could join it, and at most ``provisional`` until its source's clock has passed its end. It
    is closed when these hours are.
    """
    dimensions = list(map(identifier, tables.metric.dimensions))
    gap, longest = session.gap // _MICROSECOND, session.max_length // _MICROSECOND
    to_close = _HOUR_MICROS + tables.source.grace // _MICROSECOND
    closes = f"{_floor('epoch_us(window_end)', _HOUR_MICROS)} + {to_close}"
    return f"""
        WITH ordered AS (
            SELECT * EXCLUDE (state), epoch_us(session_start) AS _first, epoch_us(session_end) AS _last,
                   _first - lag(_last) OVER same_group > {gap} AS _begins
            FROM {tables.metric.name}_states {_needed(session, starts)}
            WINDOW same_group AS ({_partition(dimensions)} ORDER BY session_start)
        ), chained AS (
            -- DuckDB computes FILTER in a window anew for each row.
            SELECT *, count(if(_begins, 1, NULL)) OVER ({_partition(dimensions)} ORDER BY session_start) AS _chain
            FROM ordered
        ), cut AS (
            SELECT *, if(max(_last) OVER chained - min(_first) OVER chained > {longest},
                         {_floor("epoch_us(hour)", longest)}, NULL) AS _piece
            FROM chained WINDOW chained AS ({_partition([*dimensions, "_chain"])})
        ), sessions AS (
            SELECT * EXCLUDE (_first, _last, _begins, _chain, _piece),
                   make_timestamptz(min(_first) OVER session) AS window_start,
                   make_timestamptz(least(max(_last) OVER session + {gap}, _piece + {longest})) AS window_end
            FROM cut WINDOW session AS ({_partition([*dimensions, "_chain", "_piece"])})
        ), known AS (
            SELECT window_start, window_end, coalesce(window_end < clock, false) AS passed,
                   coalesce({closes} <= epoch_us(clock), false) AS _closed
            FROM (SELECT DISTINCT window_start, window_end FROM sessions),
                 (SELECT max(clock) AS clock FROM hourline.source_hours_{tables.source.name})
        ), states AS (
            SELECT window_start, window_end, _closed, if(passed, 'final', 'provisional') AS state, NULL AS hour
            FROM known
            UNION ALL
            SELECT window_start, window_end, known._closed, h.state, h.hour
            FROM known JOIN (FROM hourline.hours_{tables.name} WHERE state <> 'final') h
              ON epoch_us(h.hour) + {_HOUR_MICROS} + {gap} > epoch_us(window_start) AND h.hour <= window_end
        ), weakest AS (
            SELECT window_start, window_end, _closed, {weakest_sql()} AS state,
                   arg_min(hour, ({weakness_sql()}, hour)) AS _weakest_hour
            FROM states GROUP BY window_start, window_end, _closed
        )
        SELECT window_start, window_end, state, _weakest_hour, _closed, sessions.* EXCLUDE (window_start, window_end)
        FROM sessions JOIN weakest USING (window_start, window_end) WHERE state <> 'missing'"""


def sessions_sql(tables: MetricTables, rows: str) -> str:
    """A query: window_start, window_end, state, weakest_hour, closed of the sessions of all groups, and of each missing
    hour, in which no session is known. ``rows`` is what ``session_rows_sql`` gives, as a view or a query in brackets.
    """
    return f"""
        SELECT DISTINCT window_start, window_end, state, _weakest_hour AS weakest_hour, _closed AS closed FROM {rows}
        UNION ALL
        SELECT hour, make_timestamptz(epoch_us(hour) + {_HOUR_MICROS}), state, hour, closed
        FROM hourline.hours_{tables.name} WHERE state = 'missing'"""


def _needed(session: SessionWindow, starts: HourRange | None) -> str:
    """The condition for the hours that sessions with a start in ``starts`` depend on. A chain that comes from before is
    long enough in them to be cut, as it is in all hours.
    """
    if starts is None:
        return ""
    around = session.max_length + 2 * session.gap + HOUR
    first, last = starts.start - min(around, starts.start - _FIRST), starts.end + min(around, _LAST - starts.end)
    return f"WHERE hour >= {literal(first)} AND hour < {literal(last)}"


def _partition(columns: list[str]) -> str:
    return f"PARTITION BY {', '.join(columns)}" if columns else ""


def _floor(micros: str, step: int) -> str:
    """The last multiple of ``step`` at or before ``micros``, which are negative before 1970."""
    return f"{micros} - ({micros} % {step} + {step}) % {step}"
