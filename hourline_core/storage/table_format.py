"""The properties of a table with the version of Hourline that wrote it, and its place."""

from deltalake import DeltaTable

from hourline_core.errors import OldWorkspaceError

FORMAT = {"hourline.format": "0.2"}
"""A property of each table: the first version of Hourline with its current columns. Tables of 0.1 have none."""

PLACE = "hourline.table"
"""The property with the place of a table: its path below the root of the tables."""


def refuse_other_format(table: DeltaTable, uri: str) -> None:
    """Raise OldWorkspaceError if ``table``, opened at ``uri``, was written by a version with other columns."""
    ((name, current),) = FORMAT.items()
    written = table.metadata().configuration.get(name, "0.1")
    if written != current:
        raise OldWorkspaceError(
            f"the table at {uri} was written by Hourline {written}, and Hourline {current} cannot read such a "
            "workspace: use another one (--workspace, or `workspace` in hourline.yaml, and other `tables:`, if it "
            f"names some), or continue with Hourline {written}"
        )
