"""DuckDB SQL for the sessions that late events have revised.

A late event is above the cutoff of its hour. It revises the session that it belongs to, and each session that would not
begin or end where it does without the late events: one that they have joined, moved or cut. All other sessions remain
as they are, also those of the same hour.
"""

from collections.abc import Sequence
from datetime import datetime

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.hours import HourRange
from hourline_core.model.session_window import SESSION_BOUNDS
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import counted_states_sql
from hourline_core.sql.session_windows import rows_of_sessions_sql, same_group_sql, session_of


def create_revised_sessions_sql(tables: MetricTables, sequence: int, revised: Sequence[datetime]) -> str:
    """The statement that makes ``hourline.revised_<metric>_<declaration>``: the dimensions, window_start, hour. It has
    a row for each revised session, with the hour of a late event that revised it.

    It reads the rows up to ``sequence`` of both layers and the states of hours, as attached by tables.py. ``revised``
    are the hours that late events may be in, as ``revised_hours`` gives them.
    """
    table, dimensions = f"CREATE TABLE hourline.revised_{tables.name} AS", tables.metric.dimensions
    keys = "".join(f"{identifier(name)}, " for name in dimensions)
    if not revised:
        return f"{table} SELECT {keys}hour AS window_start, hour FROM hourline.provisional_{tables.name} WHERE false"
    rows = rows_of_sessions_sql(session_of(tables), dimensions, "FROM rows_of_groups")
    without = """
        SELECT * REPLACE (_start_without AS session_start, _end_without AS session_end)
        FROM rows_of_groups WHERE _start_without IS NOT NULL"""
    rows_without = rows_of_sessions_sql(session_of(tables), dimensions, without)
    return f"""
        {table}
        WITH merged AS (
            {_merged_sql(tables, sequence, revised)}
        ), late AS (
            SELECT DISTINCT {keys}hour FROM merged WHERE _late
        ), rows_of_groups AS MATERIALIZED (
            SELECT * FROM merged WHERE EXISTS (FROM late WHERE {same_group_sql(dimensions, "merged", "late")})
        ), sessions AS (
            SELECT {keys}window_start, window_end, min(hour) FILTER (_late) AS _late_hour
            FROM ({rows}) GROUP BY ALL
        ), without AS (
            SELECT DISTINCT {keys}window_start, window_end FROM ({rows_without})
        )
        SELECT {keys}window_start, coalesce(_late_hour, (
            SELECT arg_min(hour, abs(epoch_us(hour) - epoch_us(window_start)))
            FROM late WHERE {same_group_sql(dimensions, "sessions", "late")}
        )) AS hour
        FROM sessions
        WHERE _late_hour IS NOT NULL OR NOT EXISTS (
            FROM without
            WHERE {same_group_sql(dimensions, "sessions", "without")}
              AND without.window_start = sessions.window_start AND without.window_end = sessions.window_end
        )"""


def _merged_sql(tables: MetricTables, sequence: int, revised: Sequence[datetime]) -> str:
    """A query: hour, the tile columns, session_start and session_end, _start_without and _end_without (the same without
    late events; null: there are no others), _late (it has late events) of each row that may share a session with a
    late event, or with a session that a late event has changed.
    """
    session, hours = session_of(tables), f"hourline.hours_{tables.name}"
    # A late event changes no session that is further away than the reach. That one depends on no hour still further.
    ranges = [session.around(session.around(near)) for near in HourRange.stretches(revised, session.reach)]
    near = " OR ".join(f"hour >= {literal(one.start)} AND hour < {literal(one.end)}" for one in ranges)
    bounds = dict.fromkeys(SESSION_BOUNDS, "TIMESTAMPTZ")
    counted = counted_states_sql(tables, bounds, sequence, hours=f"h.state <> 'missing' AND ({near})")
    keys = ", ".join(map(identifier, ["hour", *tables.metric.tile_columns]))
    return f"""
            SELECT {keys}, min(session_start) AS session_start, max(session_end) AS session_end,
                   min(session_start) FILTER (NOT _above) AS _start_without,
                   max(session_end) FILTER (NOT _above) AS _end_without, bool_or(_above) AS _late
            FROM (
                SELECT counted.*, counted.sequence IS NOT NULL AND h.cutoff IS NOT NULL AS _above
                FROM ({counted}) counted JOIN {hours} h USING (hour)
            ) GROUP BY {keys}"""
