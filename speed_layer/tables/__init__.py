"""A source as a table, of which the newest event of each key is the row: what snapshots and upserts have in common."""
