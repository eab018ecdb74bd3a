"""DuckDB SQL for windows other than hours: which there are, their states, and the rows of their hours.

A window is listed as soon as one of its hours is known. Its state is the weakest of its hours. Until its source's clock
has passed its end, it is at most ``provisional``, since hours of it are still to come. An hour that late events have
revised makes only those windows ``revised`` that contain the pane of one of these events.

The hours of a long silence (see long_silences.py) are final. A window that ends in one, or where one may begin, is
final once it has closed. A window that lies wholly within one is not listed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import duckdb

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.model.hours import HOUR
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.model.windows import Window
from hourline_core.sql.hour_states import weakest_sql, weakness_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import values_sql

_NO_WINDOWS = """
    SELECT NULL::VARCHAR AS source, NULL::VARCHAR AS metric, NULL::TIMESTAMPTZ AS window_start,
           NULL::TIMESTAMPTZ AS window_end, NULL::VARCHAR AS state, NULL::TIMESTAMPTZ AS weakest_hour,
           NULL::BOOLEAN AS closed
    WHERE false"""


WINDOW_SECONDS = "(epoch(window_end) - epoch(window_start))"
"""DuckDB SQL for the length of a window in seconds."""

_HOUR_MICROS = HOUR // timedelta(microseconds=1)
_HOURS = (
    f"range(make_timestamptz(epoch_us(window_start) - "
    f"(epoch_us(window_start) % {_HOUR_MICROS} + {_HOUR_MICROS}) % {_HOUR_MICROS}), window_end, INTERVAL 1 HOUR)"
)
"""DuckDB SQL for the hours that share time with a window."""


def create_windows_sql(
    connection: duckdb.DuckDBPyConnection, tables: MetricTables, windows: Window, sequence: int
) -> str:
    """The statement that makes ``hourline.windows_<metric>_<declaration>``: window_start, window_end, state,
    weakest_hour (the first of its hours in the weakest state; null: they are final), closed.

    It reads the states of the metric's hours, its provisional rows up to ``sequence``, and the hours and long silences
    of its source, as attached by tables.py. Numbers are written into it, so that any DuckDB can run it.
    """
    stretches = connection.execute(_stretches_sql(tables, max(windows.shortest, HOUR))).fetchall()
    spans = [windows.touching(first, last + HOUR - windows.pane) for first, last in stretches]
    grace = f"INTERVAL '{int(tables.source.grace.total_seconds())} seconds'"
    return f"""
        CREATE TABLE hourline.windows_{tables.name} AS
        WITH spans AS (
            SELECT DISTINCT make_timestamptz(s) AS window_start, make_timestamptz(e) AS window_end
            FROM (SELECT unnest({_numbers(span.starts for span in spans)}) AS s,
                         unnest({_numbers(span.ends for span in spans)}) AS e)
        ), known AS (
            SELECT *, coalesce(window_end + {grace} <= clock, false) AS closed,
                   coalesce(window_end <= clock, false) AND (
                       coalesce(last_hour + INTERVAL 1 HOUR + {grace} <= clock, false)
                       OR EXISTS (FROM hourline.source_hours_{tables.source.name} WHERE hour = last_hour)) AS passed
            FROM (SELECT *, {_HOURS}[-1] AS last_hour FROM spans),
                 (SELECT max(clock) AS clock FROM hourline.source_hours_{tables.source.name})
        ), states AS (
            SELECT window_start, window_end, closed, if(passed, 'final', 'provisional') AS state, NULL AS hour
            FROM known
            UNION ALL
            SELECT window_start, window_end, known.closed, u.state, u.hour
            FROM known JOIN ({_unsettled_sql(tables, sequence)}) u
              ON u.until > window_start AND u.since < window_end
        )
        SELECT window_start, window_end, {weakest_sql()} AS state,
               arg_min(hour, ({weakness_sql()}, hour)) AS weakest_hour, closed
        FROM states GROUP BY window_start, window_end, closed"""


def _unsettled_sql(tables: MetricTables, sequence: int) -> str:
    """A query: hour, state of the hours that are not final, and the time (``since``, and ``until``, exclusive) that is
    in this state. With panes, a revised hour has a row for each pane that late events are in.
    """
    hours = f"hourline.hours_{tables.name}"
    whole = f"SELECT hour, state, hour AS since, hour + INTERVAL 1 HOUR AS until FROM {hours} WHERE state <> 'final'"
    silent = f"""
        SELECT silence_start, state, silence_start, silence_end
        FROM hourline.long_silences_{tables.source.name} WHERE state <> 'final'"""
    if not tables.metric.pane:
        return f"{whole} UNION ALL {silent}"
    # Any length up to that of a pane will do: a boundary of a window is the start of a pane.
    late = f"""
        SELECT DISTINCT hour, h.state, t.pane AS since, t.pane + INTERVAL 1 MICROSECOND AS until
        FROM hourline.provisional_{tables.name} t JOIN {hours} h USING (hour)
        WHERE h.state = 'revised' AND t.sequence > h.cutoff AND t.sequence <= {sequence}
          AND t.sequence >= {tables.complete_from}"""
    return f"{whole} AND state <> 'revised' UNION ALL {late} UNION ALL {silent}"


def windowed_rows_sql(tables: MetricTables) -> str:
    """A query: window_start, window_end, state of the window, and the other columns of the view ``<metric>_states``: a
    row for each row of that view and window that contains its pane.

    Windows with missing hours are left out. A filter on the window reaches the tables: DuckDB reads only the hours of
    the windows that it joins.
    """
    windows = f"SELECT window_start, window_end, state FROM hourline.windows_{tables.name} WHERE state <> 'missing'"
    return rows_of_windows_sql(tables.metric, windows, f"SELECT * EXCLUDE (state) FROM {tables.metric.name}_states")


def finished_windows_sql(metric: Metric, stored: Mapping[str, str], rows: str) -> str:
    """A query over the query ``rows``, which has the columns of ``windowed_rows_sql``: window_start, window_end, the
    dimensions, the finished measures, state.
    """
    # The state is the same in all rows of a window. As a key, a filter on it reaches the windows.
    keys = (*WINDOW_COLUMNS, "state")
    values = values_sql(metric, stored, rows, metric.dimensions, keys, WINDOW_SECONDS)
    columns = [*WINDOW_COLUMNS, *map(identifier, [*metric.dimensions, *metric.measures]), "state"]
    return f"SELECT {', '.join(columns)} FROM ({values})"


def rows_of_windows_sql(metric: Metric, windows: str, rows: str) -> str:
    """A query: the columns of the query ``windows``, which has window_start and window_end, and those of the query
    ``rows`` of states: a row for each row and window that contains its hour, or its pane.
    """
    inside = " WHERE pane >= window_start AND pane < window_end" if metric.pane else ""
    return f"SELECT * FROM (SELECT *, unnest({_HOURS}) AS hour FROM ({windows})) JOIN ({rows}) USING (hour){inside}"


def hours_of_windows_sql(hours: str, windows: str) -> str:
    """A query: hour, state of those of ``hours`` (a table with these columns) that share time with one of ``windows``
    (a query with window_start and window_end).
    """
    inside = f"SELECT unnest({_HOURS}) FROM ({windows})"
    return f"SELECT hour, state FROM {hours} WHERE hour IN ({inside})"


def all_windows_sql(declarations: Iterable[MetricTables]) -> str:
    """A query: source, metric, window_start, window_end, state, weakest_hour, closed of all windows of these
    declarations.
    """
    parts = [
        f"SELECT {literal(tables.source.name)}, {literal(tables.metric.name)}, * FROM hourline.windows_{tables.name}"
        for tables in declarations
        if not tables.metric.window.is_hour
    ]
    return " UNION ALL ".join(f"({part})" for part in [_NO_WINDOWS, *parts])


def _stretches_sql(tables: MetricTables, apart: timedelta) -> str:
    """A query: the first and last hour of each stretch of hours that are at most so far ``apart``."""
    gap = f"hour - lag(hour) OVER (ORDER BY hour) > INTERVAL '{int(apart.total_seconds())} seconds'"
    return f"""
        SELECT min(hour), max(hour) FROM (
            SELECT hour, count_if(gap) OVER (ORDER BY hour) AS stretch
            FROM (SELECT hour, {gap} AS gap FROM hourline.hours_{tables.name})
        ) GROUP BY stretch ORDER BY 1"""


def _numbers(parts: Iterable[Sequence[int]]) -> str:
    """DuckDB SQL for one list of all numbers."""
    return f"flatten([{', '.join(map(_list, parts))}]::BIGINT[][])"


def _list(part: Sequence[int]) -> str:
    return f"range({part.start}, {part.stop}, {part.step})" if isinstance(part, range) else f"{list(part)}"
