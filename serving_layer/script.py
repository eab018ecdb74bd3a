"""Makes the script that gives DuckDB's command line, or a BI tool, the views of a project."""

from hourline_core.ledger.layout import Layout
from hourline_core.sql.database import delta_extension
from hourline_core.sql.literals import literal
from hourline_core.storage.version_retention import KEPT_HOURS
from serving_layer.connection import Connection

_SECRETS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
"""DuckDB's type of secret by the scheme of the tables' address."""


def script(connection: Connection) -> str:
    """Statements for a fresh DuckDB: the views of ``connection``, at its snapshot. They have the names of
    ``storage_options``, never the values.
    """
    header = [
        f"-- The views of {connection.project.name} as of {connection.moment}.",
        f"-- For a fresh DuckDB 1.5, such as `duckdb -init FILE`. It works for {KEPT_HOURS} hours at least; then "
        "print it again.",
        "-- INSTALL downloads an extension of DuckDB, unless it is there. Without a network, run this first:",
        f"--   INSTALL {literal(str(delta_extension()))};",
        *_secrets(connection),
    ]
    statements = ["INSTALL delta", "LOAD delta", "SET TimeZone = 'UTC'", *connection.statements]
    return "\n".join(
        [*header, *(statement if statement.startswith("--") else f"{statement};" for statement in statements)]
    )


def _secrets(connection: Connection) -> list[str]:
    """The statements to complete if the tables are in an object store."""
    layout = Layout.of(connection.project)
    scheme, separator, _ = layout.root.partition("://")
    if not separator:
        return []
    names = (
        f" (hourline.yaml has them in storage_options: {', '.join(sorted(layout.storage_options))})"
        if layout.storage_options
        else ""
    )
    return [
        f"-- The tables lie at {layout.root}; run this first, with your credentials{names}:",
        f"--   CREATE SECRET (TYPE {_SECRETS.get(scheme, scheme)}, …, SCOPE '{layout.root}');",
    ]
