"""What is read of coverage, as DuckDB SQL over ``hourline.coverage``; as objects, ``hourline_core.ledger.coverage``."""

from collections.abc import Iterable

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.literals import literal


def of_declaration(tables: MetricTables) -> str:
    """A condition: the rows of one declaration of a metric; also for views that have the columns metric and
    declaration.
    """
    return f"metric = {literal(tables.metric.name)} AND declaration = {literal(tables.declaration)}"


def marks_sql(tables: MetricTables) -> str:
    """A query: hour, cutoff (null: not covered), blocked_cutoff (null: not blocked), expectations (the hash of those it
    was audited with).
    """
    return f"SELECT hour, cutoff, blocked_cutoff, expectations FROM hourline.coverage WHERE {of_declaration(tables)}"


def staged_sql(tables: MetricTables, version: int) -> str:
    """A query: hour, blocked_cutoff — the blocked hours whose rows the staged table has at ``version``."""
    return f"SELECT hour, blocked_cutoff FROM hourline.coverage WHERE {of_declaration(tables)} AND staged = {version}"


def covered_hours_sql(declarations: Iterable[MetricTables]) -> str:
    """A query: source, metric, declaration, hour, cutoff, published — of the covered hours of these declarations, also
    where they are blocked now.
    """
    conditions = [f"({of_declaration(tables)})" for tables in declarations]
    return (
        "SELECT source, metric, declaration, hour, cutoff, published FROM hourline.coverage "
        f"WHERE hour IS NOT NULL AND cutoff IS NOT NULL AND ({' OR '.join(conditions) or 'false'})"
    )
