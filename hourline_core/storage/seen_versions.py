"""The versions of other tables that a commit has seen, kept with it: so a table that lacks commits is told."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from deltalake import DeltaTable, Transaction

from hourline_core.errors import TableError
from hourline_core.storage.data_files import BACKUP, name_of

NO_VERSIONS: Mapping[str, int] = MappingProxyType({})
"""No versions of other tables."""

_SEEN = "hourline-seen "
"""With a table's name behind it, the application id under which a commit to another one records at which version it
went by that table.
"""


def versions_of(tables: Iterable[DeltaTable]) -> dict[str, int]:
    """By name, the versions that ``tables`` stand at, for a commit that goes by them."""
    return {name_of(table): table.version() for table in tables}


def require_seen(table: DeltaTable, by: DeltaTable) -> None:
    """Raise TableError when ``table`` stands below the version that it had when ``by`` was committed, which went by it:
    commits are missing.
    """
    refuse_older(table.table_uri, table.version(), by, name_of(table))


def refuse_older(uri: str, version: int | None, by: DeltaTable, name: str) -> None:
    """The same for a table by its version (None: it is not there) and its name."""
    seen = by.transaction_version(_SEEN + name)
    if seen is not None and (version is None or version < seen):
        stands = "is gone" if version is None else f"stands at version {version}"
        raise TableError(
            f"the table at {uri.rstrip('/')} {stands}, but {name_of(by)} went by its version {seen}: "
            f"commits are missing; {BACKUP}"
        )


def transactions(versions: Mapping[str, int]) -> list[Transaction]:
    """The application transactions by which a commit records ``versions``, by name, of other tables."""
    return [Transaction(_SEEN + name, version) for name, version in versions.items()]
