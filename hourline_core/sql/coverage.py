"""Coverage as DuckDB SQL over a snapshot, for queries that join it; as objects, ``hourline_core.ledger.coverage``."""

from hourline_core.ledger.snapshot import MetricTables

COVERED_HOURS = """
    SELECT source, metric, declaration, hour, cutoff, published FROM hourline.coverage
    WHERE hour IS NOT NULL AND cutoff IS NOT NULL"""
"""A query: one row for each covered hour of each declaration, also where it is blocked now."""


def covered_hours_of(tables: MetricTables) -> str:
    """A query: hour — the covered hours of one declaration."""
    own = f"metric = '{tables.metric.name}' AND declaration = '{tables.declaration}'"
    return f"SELECT hour FROM ({COVERED_HOURS}) WHERE {own}"
