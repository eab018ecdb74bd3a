"""Which hours a confirmed gap makes reliable."""

from datetime import datetime

from hourline_core.feed.confirmed_gaps import ConfirmedGaps
from serving_layer.snapshot_connection import SnapshotConnection


def confirmed_hours(connection: SnapshotConnection, gaps: ConfirmedGaps) -> dict[str, dict[datetime, str]]:
    """By metric with tables, its hours (UTC, in order) in ``gaps``, each with its state. Raises TableError."""
    found: dict[str, dict[datetime, str]] = {}
    with connection.naming_damage():
        for source, sequences in gaps.sequences.items():
            if not (source in connection.snapshot.progress and connection.snapshot.progress[source].has_gaps):
                continue
            database = connection.attached("hourline.metric_hours", f"hourline.gaps_{source}")
            rows = database.execute(
                f"""SELECT metric, hour, state FROM hourline.metric_hours h WHERE served AND source = ? AND EXISTS (
                    FROM hourline.gaps_{source} g WHERE list_contains(?, g.sequence)
                    AND h.hour BETWEEN coalesce(g.first_hour, h.hour) AND g.last_hour
                ) ORDER BY metric, hour""",
                [source, sorted(sequences)],
            ).fetchall()
            for metric, hour, state in rows:
                found.setdefault(metric, {})[hour] = state
    return found
