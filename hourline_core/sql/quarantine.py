"""The quarantine as DuckDB SQL: what classes of the served metrics fail for."""

from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Source
from hourline_core.sql.literals import literal


def quarantined_sql(snapshot: Snapshot, source: Source, sequence: int) -> str | None:
    """A query for one row: events (bigint), and file, message, arrived (UTC) of the first one, of the rows of the
    quarantine up to ``sequence`` that are about the declarations that are served. None: the source has no quarantine.
    """
    served = [tables for tables in snapshot.served if tables.source.name == source.name]
    if not served or f"quarantine/{source.name}" not in snapshot.other_tables:
        return None
    counted = " OR ".join(
        f"(declaration = {literal(tables.declaration)} AND metric = {literal(tables.metric.name)} "
        f"AND sequence >= {tables.complete_from})"
        for tables in served
    )
    progress = f"hourline.progress_{source.name}"
    return f"""
        SELECT count(*) AS events, arg_min(file, q.sequence) AS file, arg_min(message, q.sequence) AS message,
               (SELECT min(finished) FROM {progress} p WHERE p.sequence >= min(q.sequence)) AS arrived
        FROM hourline.quarantine_{source.name} q WHERE q.sequence <= {sequence} AND ({counted})"""
