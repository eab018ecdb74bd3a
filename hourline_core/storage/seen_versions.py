"""The versions of other tables that a commit depends on, kept with it, so that missing commits are noticed."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from deltalake import DeltaTable, Transaction

from hourline_core.errors import TableError
from hourline_core.storage.data_files import BACKUP, name_of

NO_VERSIONS: Mapping[str, int] = MappingProxyType({})
"""No versions of other tables."""

SEEN = "hourline-seen "
"""Followed by a table's name, the application id under which a commit to another table records the version of that
table.
"""


def versions_of(tables: Iterable[DeltaTable]) -> dict[str, int]:
    """By name, the current versions of ``tables``, for a commit that depends on them."""
    return {name_of(table): table.version() for table in tables}


def require_seen(table: DeltaTable, by: DeltaTable) -> None:
    """Raise TableError if ``table`` is below the version that the commit to ``by`` recorded: commits are missing."""
    refuse_older(table.table_uri, table.version(), by, name_of(table))


def seen_version(name: str, by: DeltaTable) -> int | None:
    """The version of the table ``name`` that a commit to ``by`` last recorded. None: none did."""
    version: int | None = by.transaction_version(SEEN + name)
    return version


def refuse_older(uri: str, version: int | None, by: DeltaTable, name: str) -> None:
    """The same for a table by its version (None: it does not exist) and its name."""
    seen = seen_version(name, by)
    if seen is not None and (version is None or version < seen):
        stands = "is gone" if version is None else f"stands at version {version}"
        raise TableError(
            f"the table at {uri.rstrip('/')} {stands}, but {name_of(by)} depends on its version {seen}: "
            f"commits are missing; {BACKUP}"
        )


def transactions(versions: Mapping[str, int]) -> list[Transaction]:
    """The application transactions by which a commit records ``versions``, by name, of other tables."""
    return [Transaction(SEEN + name, version) for name, version in versions.items()]
