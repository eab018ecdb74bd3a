"""What arrived of a source, and when, as DuckDB SQL over progress: for findings about a source. Some of it reads
``all_progress`` (see ``keep_all_progress``), the rest ``hourline.progress_<source>``.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.layout import FROM_HOUR, NO_EVENT_REASON
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Source
from hourline_core.model.windows import HOURLY
from hourline_core.sql.hour_states import metric_hours_sql
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import IS_IMPORTED

KNOWN_FOR = timedelta(days=28)
"""The time before now by which one knows what is usual."""

RECENT = timedelta(hours=1)
"""The span of arrival, up to the last record, over which shares are computed."""

COUNTS = ("events", "accepted", "rejected", "duplicates", "late", "taken_by_none")
"""What is counted of recent micro-batches."""

_WAITING = (
    "served AND closed AND (counted IN ('provisional', 'revised', 'missing') "
    "OR (counted = 'stale' AND changed_lookups IS NULL))"
)
"""Without the hours that wait because of a lookup, which have a finding of their own."""

SOURCES_WITH_WAITING_HOURS = f"SELECT DISTINCT source FROM hourline.metric_hours WHERE {_WAITING}"
"""A query: source of each closed hour that a recompute would take."""


def arrivals_sql(now: datetime) -> str:
    """A query for one row of each source that had records in the time ``KNOWN_FOR`` before ``now`` (UTC): ``source``,
    and of the micro-batches that finished in it:

    - ``begun``, ``last``: when the first and the last one with events finished
    - ``recent_first``, ``recent_last``: the sequences of those in the time ``RECENT`` before ``last``;
      ``recent_began``; and ``recent_…`` for the counts events, accepted, rejected, duplicates, late, taken_by_none
    - ``run_first``, ``run_last``, ``run_began``, ``run_rejected``: of those since the last accepted event or duplicate
    - ``silence``: the second longest time between two with events. The longest one may have been an outage
    - ``clock``, ``clock_since``: the source's clock, and since when it stands there
    - ``read_last``: when the last one finished that read no imported file; ``all_rejected``: their rejected records
    - ``delay``: how far the clock was behind arrival while it moved (95 % quantile); null if it never moved
    """
    recent = ", ".join(f"coalesce(sum({name}), 0)::BIGINT AS recent_{name}" for name in COUNTS)
    return f"""
        WITH batches AS MATERIALIZED (
            SELECT source, sequence, started, finished, clock, accepted, rejected, duplicates, late,
                   coalesce(taken_by_none, 0) AS taken_by_none,
                   records + coalesce(exploded, 0) - coalesce(not_taken, 0) AS events,
                   {IS_IMPORTED} AS imported
            FROM all_progress WHERE finished >= {literal(now - KNOWN_FOR)}
        ),
        reading AS MATERIALIZED (FROM batches WHERE events > 0 OR rejected > 0),
        span AS MATERIALIZED (
            SELECT source, min(finished) AS begun, max(finished) AS last,
                   max(finished) FILTER (NOT imported) AS read_last, sum(rejected)::BIGINT AS all_rejected
            FROM reading GROUP BY source
        ),
        recent AS (
            SELECT source, min(sequence) AS recent_first, max(sequence) AS recent_last, min(started) AS recent_began,
                   {recent}
            FROM batches JOIN span USING (source)
            WHERE finished > last - INTERVAL '{RECENT // timedelta(seconds=1)} seconds' GROUP BY source
        ),
        taken AS (
            SELECT source, max(sequence) AS taken FROM batches WHERE accepted > 0 OR duplicates > 0 GROUP BY source
        ),
        run AS (
            SELECT source, min(sequence) AS run_first, max(sequence) AS run_last, min(started) AS run_began,
                   sum(rejected)::BIGINT AS run_rejected
            FROM reading LEFT JOIN taken USING (source) WHERE sequence > coalesce(taken, 0) GROUP BY source
        ),
        minutes AS MATERIALIZED (
            SELECT source, min(started) AS started, max(finished) AS finished, max(clock) AS clock
            FROM reading WHERE NOT imported GROUP BY source, epoch(finished)::BIGINT // 60
        ),
        pauses AS (
            SELECT source, epoch(list(pause ORDER BY pause DESC)[2]) AS silence
            FROM (
                SELECT source, started - lag(finished) OVER (PARTITION BY source ORDER BY finished) AS pause
                FROM minutes
            )
            WHERE pause > INTERVAL '1 minute' GROUP BY source
        ),
        stands AS (
            SELECT source, any_value(newest) AS clock, min(finished) FILTER (clock = newest) AS clock_since
            FROM (SELECT *, max(clock) OVER (PARTITION BY source) AS newest FROM batches) GROUP BY source
        ),
        delays AS (
            SELECT source, quantile_cont(epoch(m.finished) - epoch(m.clock), 0.95) AS delay
            FROM minutes m JOIN stands s USING (source) WHERE m.clock < s.clock GROUP BY source
        )
        SELECT * REPLACE (coalesce(run_rejected, 0) AS run_rejected)
        FROM span JOIN recent USING (source) LEFT JOIN run USING (source) LEFT JOIN pauses USING (source)
        LEFT JOIN stands USING (source) LEFT JOIN delays USING (source)"""


def pauses_of_partition_sql(source: Source, sequence: int, now: datetime, topic_id: str, partition: int) -> str:
    """A query for one row: begun, silence (seconds), as in ``arrivals_sql``, of one partition."""
    return f"""
        WITH reading AS (
            SELECT sequence, started, finished FROM hourline.progress_{source.name}
            WHERE sequence <= {sequence} AND finished >= {literal(now - KNOWN_FOR)} AND topic_id = {literal(topic_id)}
            AND len(list_filter(offsets, lambda o: o.partition = {partition} AND o.last >= o.first)) > 0
        )
        SELECT (SELECT min(finished) FROM reading) AS begun, (
            SELECT epoch(list(pause ORDER BY pause DESC)[2])
            FROM (SELECT started - lag(finished) OVER (ORDER BY sequence) AS pause FROM reading
                  QUALIFY pause > INTERVAL '1 minute' ORDER BY pause DESC LIMIT 2)
        ) AS silence"""


_VALUES = r"regexp_replace(reason, 'got .*, want', 'got …, want', 's')"
_NAMES = r"'\[''[^'']*''\]', '[…]', 'g'"
_GUIDS = r"'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', '#', 'g'"
_PATTERN = f"regexp_replace(regexp_replace(regexp_replace({_VALUES}, {_NAMES}), {_GUIDS}), '[0-9]+', '#', 'g')"
"""The reasons of one fault differ in the values, names of maps and ids of schemas that they quote."""


def reasons_sql(source: Source, first: int, last: int, most: int) -> str:
    """A query: reason, records, topic, partition, offset of the records that sequences from ``first`` to ``last`` have
    rejected, the ``most`` frequent reasons first. Reasons that differ in the values that they quote are one, and the
    columns are those of its first record.
    """
    return f"""
        SELECT arg_min(reason, (sequence, partition, "offset")) AS reason, count(*) AS records,
               unnest(arg_min({{'topic': topic, 'partition': partition, 'offset': "offset"}},
                              (sequence, partition, "offset")), recursive := true)
        FROM hourline.rejected_{source.name} WHERE sequence BETWEEN {first} AND {last}
        GROUP BY {_PATTERN} ORDER BY records DESC, reason LIMIT {most}"""


def new_reasons_sql(source: Source, sequence: int, now: datetime, since: datetime) -> str:
    """A query as ``reasons_sql``, with ``arrived`` (of its first record): the reasons that have come since a moment,
    and not in the time ``KNOWN_FOR`` before ``now`` (UTC) until then.
    """
    return f"""
        SELECT arg_min(reason, (sequence, partition, "offset")) AS reason, count(*) AS records,
               min(arrived) AS arrived,
               unnest(arg_min({{'topic': topic, 'partition': partition, 'offset': "offset"}},
                              (sequence, partition, "offset")), recursive := true)
        FROM hourline.rejected_{source.name}
        WHERE sequence <= {sequence} AND arrived >= {literal(now - KNOWN_FOR)}
        GROUP BY {_PATTERN} HAVING min(arrived) >= {literal(since)} ORDER BY records DESC, reason"""


def accepted_since_sql(source: Source, first: int, last: int) -> str:
    """A query for the number of records that the sequences from ``first`` to ``last`` have rejected, and that were
    decoded anew as events. It reads ``hourline.decoded_<source>``.
    """
    return (
        f"SELECT count(*) FROM hourline.decoded_{source.name} "
        f"WHERE sequence BETWEEN {first} AND {last} AND {FROM_HOUR} IS NULL AND {NO_EVENT_REASON} IS NULL"
    )


def ids_sql(source: Source, since: datetime) -> str:
    """A query for one row: events (bigint), the number of those that arrived in hours from ``since`` (UTC) on."""
    hours = f"hourline.source_hours_{source.name}"
    return f"SELECT coalesce(sum(arrived), 0)::BIGINT AS events FROM {hours} WHERE hour >= {literal(since)}"


def waiting_hours_sql(source: Source, sequence: int, served: Collection[MetricTables]) -> str:
    """A query for one row: hours (bigint), since (UTC) of the closed hours that a recompute would take, of the
    ``served`` metrics of the source. ``since``: when the first of them had closed, and had events above its cutoff.
    """
    known = f"all_progress WHERE source = {literal(source.name)}"
    closes = f"hour + INTERVAL '{int(HOURLY.complete_after(source.grace).total_seconds())} seconds'"
    # Until its rows were complete, the hours of a metric were not missing.
    starts = ", ".join(f"({literal(tables.metric.name)}, {tables.complete_from})" for tables in served)

    def closed(state: str) -> str:
        first = f"(SELECT min(closes) FROM waiting WHERE counted = '{state}')"
        return first if source.clock == "wall" else f"(SELECT min(finished) FROM {known} AND clock >= {first})"

    return f"""
        WITH waiting AS (
            SELECT metric, hour, counted, coalesce(cutoff, {NO_CUTOFF}) AS cutoff, {closes} AS closes
            FROM ({metric_hours_sql(served)}) WHERE {_WAITING}
        ),
        revised AS (
            SELECT min(finished) AS since
            FROM (
                SELECT sequence, finished, unnest(hours).hour AS hour FROM hourline.progress_{source.name}
                WHERE sequence <= {sequence} AND sequence > (SELECT min(cutoff) FROM waiting WHERE counted = 'revised')
            ) p JOIN waiting w ON w.hour = p.hour AND p.sequence > w.cutoff AND w.counted = 'revised'
        ),
        taken AS (
            SELECT min(finished) AS since
            FROM (
                SELECT sequence, finished, unnest(taken_back).hour AS hour FROM hourline.progress_{source.name}
                WHERE sequence <= {sequence} AND sequence > (SELECT min(cutoff) FROM waiting WHERE counted = 'stale')
            ) p JOIN waiting w ON w.hour = p.hour AND p.sequence > w.cutoff AND w.counted = 'stale'
        ),
        begun AS (
            SELECT min(finished) AS since FROM {known} AND sequence >= (
                SELECT min(first) FROM (VALUES {starts}) AS starts(metric, first)
                JOIN waiting USING (metric) WHERE counted = 'missing')
        )
        SELECT (SELECT count(DISTINCT hour) FROM waiting) AS hours,
               least({closed("provisional")}, greatest({closed("revised")}, revised.since),
                     greatest({closed("stale")}, taken.since), greatest({closed("missing")}, begun.since)) AS since
        FROM revised, taken, begun"""
