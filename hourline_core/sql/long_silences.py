"""Long silences as DuckDB SQL: the closed hours of a source that are too many to be listed one by one.

``source_hours_sql`` lists 31 days of empty hours after an hour with events. The hours after them are one long silence.
It ends with the next listed hour, or with the last hour that the source's clock has closed. It costs one row, whatever
its length. An hour in it has no event, so its result is empty, and nothing of it is stored.
"""

from collections.abc import Iterable
from datetime import timedelta

from hourline_core.model import Source
from hourline_core.model.hours import HOUR
from hourline_core.sql.literals import literal

_HOUR = f"INTERVAL '{int(HOUR.total_seconds())} seconds'"
_MICROS = HOUR // timedelta(microseconds=1)
_NO_SILENCES = """
    SELECT NULL::VARCHAR AS source, NULL::TIMESTAMPTZ AS silence_start, NULL::TIMESTAMPTZ AS silence_end,
           NULL::BIGINT AS hours, NULL::VARCHAR AS state
    WHERE false"""


def long_silences_sql(source: Source, has_gaps: bool) -> str:
    """A query: silence_start, silence_end (exclusive), hours, state of each long silence of one source.

    It is ``incomplete`` if records of it may be lost, and nobody has confirmed that; otherwise ``final``. It reads
    ``hourline.source_hours_<source>``, and ``hourline.gaps_<source>`` if the source ``has_gaps``.
    """
    in_gap = f"""EXISTS (
        FROM hourline.gaps_{source.name} g WHERE g.confirmed IS NULL
        AND g.last_hour >= silence_start AND coalesce(g.first_hour, silence_start) < silence_end)"""
    grace = f"INTERVAL '{int(source.grace.total_seconds())} seconds'"
    return f"""
        SELECT *, (epoch_us(silence_end) - epoch_us(silence_start)) // {_MICROS} AS hours,
               {f"if({in_gap}, 'incomplete', 'final')" if has_gaps else "'final'"} AS state
        FROM (
            SELECT hour + {_HOUR} AS silence_start,
                   least(lead(hour) OVER (ORDER BY hour),
                         make_timestamptz(closed - (closed % {_MICROS} + {_MICROS}) % {_MICROS})) AS silence_end
            FROM (SELECT hour, epoch_us(clock - {grace}) AS closed FROM hourline.source_hours_{source.name})
        ) WHERE silence_start < silence_end"""


def all_long_silences_sql(sources: Iterable[str]) -> str:
    """A query: source, and the columns of ``long_silences_sql``, of these sources."""
    parts = [f"SELECT {literal(source)}, * FROM hourline.long_silences_{source}" for source in sources]
    return " UNION ALL ".join(f"({part})" for part in [_NO_SILENCES, *parts])
