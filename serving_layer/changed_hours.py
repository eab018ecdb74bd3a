"""Which hours may differ between two snapshots: one decision, for the feed of changed hours and for ``changes``."""

from collections.abc import Collection

import duckdb

from hourline_core.ledger.time_travel import find_forgotten
from hourline_core.sql.literals import literal
from serving_layer.snapshot_connection import SnapshotConnection


def keep_changed_hours(
    database: duckdb.DuckDBPyConnection,
    before: SnapshotConnection,
    after: SnapshotConnection,
    metrics: Collection[str],
) -> None:
    """Make temporary tables in ``database``, a cursor of ``after``: ``_hours_then`` and ``_hours_now``, the hours of
    ``metrics``, which have tables (metric, hour, declaration, state, events, late, cutoff); and ``_changed`` (metric,
    hour), those whose rows or state may differ. Raises TableError.
    """
    then = before.attached("hourline.metric_hours").execute(_hours_sql(metrics)).to_arrow_table()
    database.register("_hours_read", then)
    database.execute("CREATE OR REPLACE TEMP TABLE _hours_then AS FROM _hours_read")
    after.attached("hourline.metric_hours", "hourline.drift")
    database.execute(f"CREATE OR REPLACE TEMP TABLE _hours_now AS {_hours_sql(metrics)}")
    forgotten = find_forgotten(before.snapshot)
    # A recompute may change values whose number of events and cutoff stay, such as by other fields. The state counts,
    # since a reset of a metric takes its rows, and not the events. A missing hour has no rows. Where earlier rows are
    # not kept, an hour seems to have been missing, and its earlier state is unknown.
    database.execute(
        f"""CREATE OR REPLACE TEMP TABLE _changed AS
        WITH published AS (
            SELECT DISTINCT metric, hour FROM hourline.drift
            WHERE {_is_one_of(metrics)} AND publication > $then AND publication <= $now
        ), same AS (
            SELECT metric, hour FROM _hours_then t JOIN _hours_now n USING (metric, hour, declaration, events, late)
            WHERE t.cutoff IS NOT DISTINCT FROM n.cutoff
                  AND if(t.state = 'missing' AND {_is_one_of(forgotten)}, n.state <> 'missing', t.state = n.state)
        )
        SELECT metric, hour FROM (
            SELECT metric, hour FROM _hours_then UNION SELECT metric, hour FROM _hours_now
        ) ANTI JOIN same USING (metric, hour)
        UNION FROM published""",
        {"then": before.snapshot.publication or 0, "now": after.snapshot.publication or 0},
    )


def _hours_sql(metrics: Collection[str]) -> str:
    return f"""
        SELECT metric, hour, declaration, state, events, late, cutoff
        FROM hourline.metric_hours WHERE served AND {_is_one_of(metrics)}"""


def _is_one_of(metrics: Collection[str]) -> str:
    return f"list_contains([{', '.join(map(literal, sorted(metrics)))}]::VARCHAR[], metric)"
