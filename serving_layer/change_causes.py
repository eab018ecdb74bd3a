"""Why the results of an hour have changed between two snapshots. `docs/guides/follow-changes.md` lists the causes.
Those without a name here are the causes of drift.
"""

import duckdb

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.progress import imported_sql
from serving_layer.connection import Connection

NEW, LATE, IMPORT = "new", "late", "import"
DECLARATION, RESET, ACCEPTED, RECOMPUTED = "declaration", "reset", "accepted", "recomputed"


def keep_causes(
    database: duckdb.DuckDBPyConnection, before: Connection, after: Connection, tables: MetricTables, base: str
) -> None:
    """Make the temporary table ``_causes`` (hour, measure, cause) of the metric ``base`` in ``database``, from its
    hours at both snapshots. Without a measure, it is a cause for all of them. ``tables`` are those at ``after``. If all
    events of its source were made anew in between, that is the only cause.
    """
    source = tables.source
    if source.name in before.snapshot.made_anew:
        database.execute(
            f"CREATE OR REPLACE TEMP TABLE _causes AS SELECT hour, NULL AS measure, '{RESET}' AS cause FROM _hours_now"
        )
        return
    then, now = (one.snapshot.progress.get(source.name) for one in (before, after))
    first, last = (one.sequence if one else 0 for one in (then, now))
    after.attached(f"hourline.progress_{source.name}", "hourline.drift", "hourline.quality")
    database.execute(
        f"""CREATE OR REPLACE TEMP TABLE _causes AS
        WITH imported AS (
            SELECT hour, sum(events) AS events FROM ({imported_sql(source, last)}) WHERE sequence > {first}
            GROUP BY hour
        ), hours AS (
            SELECT hour, n.state AS state, t.declaration AS declared_then, n.declaration AS declared_now,
                   coalesce(n.late, 0) - coalesce(t.late, 0) AS late, coalesce(i.events, 0) AS imported,
                   coalesce(n.events, 0) - coalesce(t.events, 0) AS events
            FROM _hours_then t FULL JOIN _hours_now n USING (hour) LEFT JOIN imported i USING (hour)
        ), published AS (
            SELECT hour, measure, unnest(causes).cause AS cause FROM hourline.drift
            WHERE metric = $metric AND publication > $then AND publication <= $now
        )
        SELECT hour, NULL AS measure, '{NEW}' AS cause FROM hours WHERE events > late + imported
        UNION SELECT hour, NULL, '{LATE}' FROM hours WHERE late > 0
        UNION SELECT hour, NULL, '{IMPORT}' FROM hours WHERE imported > 0
        UNION SELECT hour, NULL, '{RESET}' FROM hours WHERE events < 0 OR state = 'missing'
        UNION SELECT hour, NULL, '{DECLARATION}' FROM hours WHERE declared_then <> declared_now
        -- Late events had counted before they were recomputed. When they came is known above.
        UNION SELECT hour, measure, cause FROM published WHERE cause <> '{LATE}'
        UNION SELECT hour, NULL, '{ACCEPTED}' FROM hourline.quality
        WHERE expectation = '{ACCEPTED}' AND metric = $metric AND publication > $then AND publication <= $now""",
        {"metric": base, "then": before.snapshot.publication or 0, "now": after.snapshot.publication or 0},
    )
