"""The rejected events of a source, each with the bytes of its record."""

from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.scratch_columns import PLACE
from hourline_core.sql.literals import literal


def rejected_rows_sql(table: str) -> str:
    """The rows of ``table``, a table of rejected events, with ``value`` on each: of the rejected events of a record,
    the table has it on the first one. Only an exploded record has several. Tombstones, which it has too, are left out.
    """
    record, is_tombstone = 'topic_id, partition, "offset"', f"coalesce(decoding, '') = {literal(TOMBSTONE)}"
    # An older version of Hourline wrote no places and no decodings.
    rows = f"FROM {table} UNION ALL BY NAME SELECT NULL::INTEGER AS {PLACE}, NULL::VARCHAR AS decoding WHERE false"
    return f"""
        WITH rejected AS (FROM ({rows}) WHERE NOT ({is_tombstone})),
        kept AS (
            SELECT sequence, {record}, any_value(value) AS kept FROM rejected
            WHERE ({record}) IN (SELECT ({record}) FROM rejected WHERE {PLACE} > 0)
            GROUP BY ALL)
        SELECT rejected.* REPLACE (coalesce(value, kept) AS value)
        FROM rejected LEFT JOIN kept USING (sequence, {record})"""
