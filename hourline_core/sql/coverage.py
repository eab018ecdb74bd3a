"""Coverage as DuckDB SQL, over ``hourline.coverage``. As objects, it is in ``hourline_core.ledger.coverage``."""

from collections.abc import Iterable

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.literals import literal


def of_declaration(tables: MetricTables) -> str:
    """A condition for the rows of one declaration of a metric. It also suits views with the columns metric and
    declaration.
    """
    return f"metric = {literal(tables.metric.name)} AND declaration = {literal(tables.declaration)}"


def cutoffs_sql(tables: MetricTables) -> str:
    """A query: hour, cutoff (null: not covered), blocked_cutoff (null: not blocked), expectations (the hash of those
    of its audit), changed_lookups (null: its events meet the same rows of lookups as they did).
    """
    columns = "hour, cutoff, blocked_cutoff, expectations, changed_lookups"
    return f"SELECT {columns} FROM hourline.coverage WHERE {of_declaration(tables)}"


def staged_sql(tables: MetricTables, version: int) -> str:
    """A query: hour, blocked_cutoff of the blocked hours whose rows are in the staged table at ``version``."""
    return f"SELECT hour, blocked_cutoff FROM hourline.coverage WHERE {of_declaration(tables)} AND staged = {version}"


def covered_hours_sql(declarations: Iterable[MetricTables]) -> str:
    """A query: source, metric, declaration, hour, cutoff, published of the covered hours of these declarations,
    including those that are blocked now.
    """
    conditions = [f"({of_declaration(tables)})" for tables in declarations]
    return (
        "SELECT source, metric, declaration, hour, cutoff, published FROM hourline.coverage "
        f"WHERE hour IS NOT NULL AND cutoff IS NOT NULL AND ({' OR '.join(conditions) or 'false'})"
    )
