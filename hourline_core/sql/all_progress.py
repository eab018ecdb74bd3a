"""The progress of all sources as DuckDB SQL, for questions about all of them. A query for each source would cost more
than the answers, whatever their number.

All of it reads the temporary table ``all_progress``, which ``keep_all_progress`` makes of ``hourline.progress``.
"""

from datetime import datetime

import duckdb

from hourline_core.ledger.read_offsets import ARRIVED_FILE, FILE
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import COUNTS

_KEPT = (
    *("source", "sequence", "topic_id", "topic", "offsets", "position", "clock", "partitions", "cluster"),
    *("started", "finished", *COUNTS),
)

NOT_A_FILE = f"NOT starts_with(topic_id, {literal(FILE)})"
"""The condition that a row is about a topic of Kafka, not about a file."""


def keep_all_progress(database: duckdb.DuckDBPyConnection) -> None:
    """Have ``all_progress`` in ``database``, a cursor on one snapshot: source, columns of progress, and late (bigint),
    of each row up to the snapshot's sequence of its source. It is read once. Raises duckdb.Error.
    """
    late = "coalesce(list_sum(list_transform(hours, lambda h: h.late)), 0)::BIGINT AS late"
    database.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS all_progress AS SELECT {', '.join(_KEPT)}, {late} FROM hourline.progress"
    )


COUNTS_SQL = f"""
    SELECT source, {", ".join(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in COUNTS)},
           sum(late)::BIGINT AS late, max(clock) AS clock, max(finished) FILTER (len(offsets) > 0) AS finished
    FROM all_progress GROUP BY source"""
"""A query: source, COUNTS and late (bigint, 0 if there are none), clock, finished (when the last micro-batch that read
something was; UTC, null before the first).
"""

READ_OFFSETS_SQL = f"SELECT source, sequence, topic_id, topic, offsets, position FROM all_progress WHERE {NOT_A_FILE}"
"""A query: the columns that it names, of what was read from Kafka, not from files."""

LAST_CLUSTERS_SQL = f"""
    SELECT source, arg_max(cluster, sequence) AS cluster FROM all_progress
    WHERE cluster IS NOT NULL AND {NOT_A_FILE} GROUP BY source"""
"""A query: source, cluster, the id of the Kafka cluster that was read, or reset to, last. No row: it is not known."""

PARTITION_CLOCKS_SQL = """
    SELECT source, unnest(partitions, recursive := true)
    FROM (
        SELECT source, partitions FROM all_progress WHERE partitions IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY source ORDER BY sequence DESC) = 1
    )"""
"""A query: source, topic_id, partition, clock, arrived, ahead, held_back of each partition."""

TOPICS_SQL = f"""
    SELECT source, topic_id, arg_max(topic, sequence) AS topic FROM all_progress WHERE {NOT_A_FILE} GROUP BY ALL"""
"""A query: source, topic_id, topic of all topics that were read."""

FILES_READ_SQL = f"""
    SELECT source, count(DISTINCT topic_id) AS files FROM all_progress
    WHERE starts_with(topic_id, {literal(ARRIVED_FILE)}) GROUP BY source"""
"""A query: source, files (bigint), the number of files of which rows were read as they arrived. No row: none."""


def read_rates_sql(since: datetime) -> str:
    """A query: source, topic_id, partition, offsets, first_started of each partition that micro-batches finished at or
    after ``since`` (UTC) have read; ``offsets`` is how many they read.
    """
    return f"""
        SELECT source, topic_id, read.partition AS partition, sum(read.last - read.first + 1)::BIGINT AS offsets,
               min(started) AS first_started
        FROM (SELECT source, topic_id, started, offsets FROM all_progress WHERE finished >= {literal(since)}),
             UNNEST(offsets) AS parts(read)
        GROUP BY ALL"""
