"""DuckDB SQL for sessions: the rows of each, and the list of them.

A session follows from the events, so it is found among the rows of ``<metric>_states``. Each of these rows has the
events of one group in one pane, which is no longer than the gap. So a session is a chain of rows of one group in which
none begins more than the gap after the end of the one before.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Source
from hourline_core.model.hours import HOUR
from hourline_core.model.session_window import SessionWindow
from hourline_core.sql.hour_states import weakest_sql, weakness_sql
from hourline_core.sql.literals import identifier, literal

_EVER = ("TIMESTAMPTZ '-infinity'", "TIMESTAMPTZ 'infinity'")
_MICROSECOND = timedelta(microseconds=1)
_HOUR_MICROS = HOUR // _MICROSECOND


class Starts(NamedTuple):
    """Inclusive bounds for the start of sessions, as DuckDB SQL for one TIMESTAMPTZ each. They need not be on the
    hour.
    """

    first: str
    last: str

    @classmethod
    def of(cls, first: datetime, last: datetime) -> "Starts":
        """The bounds ``first`` and ``last``, which are aware."""
        return cls(literal(first), literal(last))

    @classmethod
    def between(cls, first: Iterable[str], last: Iterable[str]) -> "Starts":
        """The bounds at or after all of ``first``, and at or before all of ``last``. One that is null, or that DuckDB
        cannot compute, does not count.
        """
        every = [[f"TRY({one})" for one in bounds] for bounds in (first, last)]
        return cls(
            f"greatest({', '.join([_EVER[0], *every[0]])})",
            f"least({', '.join([_EVER[1], *every[1]])})",
        )


def session_rows_sql(tables: MetricTables, starts: Starts | None = None) -> str:
    """A query: window_start, window_end, state, _weakest_hour and _closed of the session, and the other columns of the
    view ``<metric>_states``: a row for each row of that view that is of a session with a start within ``starts`` (None:
    of all sessions). It reads no more hours than these need.

    A session begins with its first event, and ends with the gap after its last one. It is at most ``revised`` if late
    events have revised it (see revised_sessions.py), and at most ``provisional`` until its source's clock has passed
    its end. Otherwise its state is the weakest of the hours in which an event could join it, where a revised hour
    counts as final. It is closed when these hours are.
    """
    session = session_of(tables)
    needed = _needed(session, starts) if starts else ""
    states = f"SELECT * EXCLUDE (state) FROM {tables.metric.name}_states {needed}"
    return f"""
        WITH sessions AS (
            {rows_of_sessions_sql(session, tables.metric.dimensions, states)}
        ), known AS (
            SELECT sessions.*, r.hour AS _revised FROM sessions LEFT JOIN hourline.revised_{tables.name} r
            ON {same_group_sql(tables.metric.dimensions, "sessions", "r")} AND sessions.window_start = r.window_start
        ), placed AS (
            SELECT known.*, {first_hour_sql(session)} AS _from, {last_hour_sql()} AS _until,
                   coalesce(window_end < _clock, false) AS _passed,
                   coalesce({closes_sql(tables.source)} <= epoch_us(_clock), false) AS _closed
            FROM known, (SELECT max(clock) AS _clock FROM hourline.source_hours_{tables.source.name})
        )
        SELECT window_start, window_end, state, _weakest_hour, _closed,
               placed.* EXCLUDE (window_start, window_end, _revised, _from, _until, _passed, _closed)
        FROM placed, LATERAL (
            SELECT {weakest_sql()} AS state, arg_min(hour, ({weakness_sql()}, hour)) AS _weakest_hour
            FROM (
                SELECT state, hour FROM hourline.hours_{tables.name}
                WHERE state NOT IN ('final', 'revised') AND epoch_us(hour) BETWEEN _from AND _until
                UNION ALL
                SELECT 'revised', _revised WHERE _revised IS NOT NULL
                UNION ALL
                SELECT if(_passed, 'final', 'provisional'), NULL
            )
        )
        WHERE state <> 'missing' {f"AND window_start BETWEEN {starts.first} AND {starts.last}" if starts else ""}"""


def rows_of_sessions_sql(session: SessionWindow, dimensions: Iterable[str], rows: str) -> str:
    """A query: window_start and window_end of the session, and the columns of the query ``rows`` of states, which are
    merged by hour, pane and ``dimensions``: a row for each row.
    """
    same_group = f"{_partition(dimensions)} ORDER BY session_start"
    gap, longest = session.gap // _MICROSECOND, session.max_length // _MICROSECOND
    return f"""
        WITH neighbours AS (
            SELECT *, epoch_us(session_start) AS _first, epoch_us(session_end) AS _last,
                   lag(_last) OVER same_group AS _before, lead(_first) OVER same_group AS _after
            FROM ({rows})
            WINDOW same_group AS ({same_group})
        ), edges AS (
            SELECT *,
                   coalesce(_first - _before > {gap}, true) AS _begins,
                   coalesce(_after - _last > {gap}, true) AS _ends,
                   {_floor("_first", longest)} AS _piece,
                   _begins OR _before < _piece AS _begins_piece, _ends OR _after >= _piece + {longest} AS _ends_piece
            FROM neighbours
        ), chained AS (
            -- Not by FILTER, which a window computes anew for each row, nor by IGNORE NULLS, which searches the chain.
            SELECT *,
                   max(if(_begins, _first, NULL)) OVER so_far AS _chain_first,
                   min(if(_ends, _last, NULL)) OVER from_here AS _chain_last,
                   max(if(_begins_piece, _first, NULL)) OVER so_far AS _piece_first,
                   min(if(_ends_piece, _last, NULL)) OVER from_here AS _piece_last
            FROM edges
            WINDOW so_far AS ({same_group} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
                   from_here AS ({same_group} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
        ), sessions AS (
            SELECT *, _chain_last - _chain_first > {longest} AS _is_cut,
                   if(_is_cut, _piece_first, _chain_first) AS _start,
                   if(_is_cut, least(_piece_last + {gap}, _piece + {longest}), _chain_last + {gap}) AS _end
            FROM chained
        )
        SELECT make_timestamptz(_start) AS window_start, make_timestamptz(_end) AS window_end,
               * EXCLUDE (_first, _last, _before, _after, _begins, _ends, _piece, _begins_piece, _ends_piece,
                          _chain_first, _chain_last, _piece_first, _piece_last, _is_cut, _start, _end)
        FROM sessions"""


def same_group_sql(dimensions: Iterable[str], one: str, other: str) -> str:
    """The condition that rows of the tables ``one`` and ``other`` have the same ``dimensions``. Nulls are equal."""
    same = [f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in map(identifier, dimensions)]
    return " AND ".join(["true", *same])


def first_hour_sql(session: SessionWindow) -> str:
    """DuckDB SQL for the first hour in which an event could join the session from window_start to window_end, in
    microseconds since 1970.
    """
    return _floor(f"(epoch_us(window_start) - {session.gap // _MICROSECOND})", _HOUR_MICROS)


def last_hour_sql() -> str:
    """DuckDB SQL for the last such hour."""
    return _floor("epoch_us(window_end)", _HOUR_MICROS)


def closes_sql(source: Source) -> str:
    """DuckDB SQL for when such a session closes by the clock of ``source``, in microseconds since 1970: when the last
    hour closes.
    """
    return f"{last_hour_sql()} + {_HOUR_MICROS + source.grace // _MICROSECOND}"


def listed_sessions_sql(tables: MetricTables, starts: Starts | None) -> str:
    """The query of ``sessions_sql`` for sessions with a start within ``starts`` (None: all), and all missing hours."""
    return sessions_sql(tables, f"({session_rows_sql(tables, starts)})")


def longest_sql(tables: MetricTables) -> str:
    """DuckDB SQL for the longest time between the start of a session and its end."""
    session = session_of(tables)
    return f"INTERVAL '{int((session.max_length + session.gap).total_seconds())} seconds'"


def sessions_sql(tables: MetricTables, rows: str) -> str:
    """A query: window_start, window_end, state, weakest_hour, closed of the sessions of all groups, and of each missing
    hour, in which no session is known. Sessions of several groups with the same bounds have one row, with the weakest
    of their states. ``rows`` is what ``session_rows_sql`` gives, as a view or a query in brackets.
    """
    return f"""
        SELECT window_start, window_end, {weakest_sql()} AS state,
               arg_min(_weakest_hour, ({weakness_sql()}, _weakest_hour)) AS weakest_hour, _closed AS closed
        FROM {rows} GROUP BY window_start, window_end, _closed
        UNION ALL
        SELECT hour, make_timestamptz(epoch_us(hour) + {_HOUR_MICROS}), state, hour, closed
        FROM hourline.hours_{tables.name} WHERE state = 'missing'"""


def session_of(tables: MetricTables) -> SessionWindow:
    """The declared sessions of a metric that has sessions."""
    assert tables.metric.session is not None
    return tables.metric.session


def _needed(session: SessionWindow, starts: Starts) -> str:
    """The condition for the hours that sessions with a start in ``starts`` depend on. A chain that comes from before is
    long enough in them to be cut, as it is in all hours.
    """
    around = f"INTERVAL '{int(session.reach.total_seconds())} seconds'"
    return (
        f"WHERE hour >= coalesce(TRY({starts.first} - {around}), {_EVER[0]}) "
        f"AND hour <= coalesce(TRY({starts.last} + {around}), {_EVER[1]})"
    )


def _partition(dimensions: Iterable[str]) -> str:
    columns = ", ".join(map(identifier, dimensions))
    return f"PARTITION BY {columns}" if columns else ""


def _floor(micros: str, step: int) -> str:
    """The last multiple of ``step`` at or before ``micros``, which are negative before 1970."""
    return f"{micros} - ({micros} % {step} + {step}) % {step}"
