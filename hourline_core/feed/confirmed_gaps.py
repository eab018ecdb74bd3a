"""Reads which gaps a person has confirmed. Their hours may be final by that alone, without a publication."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project
from hourline_core.storage.opening import exists, open_table


@dataclass(frozen=True)
class ConfirmedGaps:
    """The gaps that some versions of the table have confirmed."""

    sequences: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By source, those that name the gaps."""
    up_to: int = 0
    """The newest version of the table: the position of who has read this. 0: there is no table."""


def newest_confirmation(project: Project) -> int:
    """The version of the table. 0: nothing was confirmed. Raises TableError."""
    layout = Layout.of(project)
    if not exists(layout.confirmations, layout.storage_options):
        return 0
    return int(open_table(layout.confirmations, layout.storage_options).version())


def confirmed_after(project: Project, version: int) -> ConfirmedGaps:
    """What was confirmed after ``version``. A version that is not there is that of a table that was deleted: everything
    is given. Raises TableError.
    """
    newest = newest_confirmation(project)
    if newest in (0, version):
        return ConfirmedGaps({}, newest)
    try:
        known = _read(project, version) if 0 < version < newest else set()
    except TableError:
        known = set()
    found: dict[str, frozenset[int]] = {}
    for source, sequence in _read(project, newest) - known:
        found[source] = found.get(source, frozenset()) | {sequence}
    return ConfirmedGaps(found, newest)


def _read(project: Project, version: int) -> set[tuple[str, int]]:
    layout = Layout.of(project)
    table = open_table(layout.confirmations, layout.storage_options, version)
    return {(row["source"], row["sequence"]) for row in table.to_pyarrow_table().to_pylist()}
