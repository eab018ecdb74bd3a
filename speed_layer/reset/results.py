"""The results of a metric, or over a source, which a reset deletes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from deltalake import DeltaTable

from hourline_core.ledger.coverage import Coverage, condition_on
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.unfinished_publication import drop_unpublished
from hourline_core.storage import commits
from hourline_core.storage.opening import exists, open_table
from speed_layer.reset.tables import Touched, count_rows


@dataclass(frozen=True)
class Results:
    """What was computed of a metric, or over a source."""

    layout: Layout
    of: Literal["metric", "source"]
    name: str
    provisional: Mapping[tuple[str, str], DeltaTable]
    """By metric and declaration."""

    def touched(self) -> list[Touched]:
        """What ``delete`` changes, in words. Raises TableError."""
        tiles = [
            (f"provisional/{name}/{declaration}", f"all of its {count_rows(table):,} row(s) are deleted")
            for (name, declaration), table in self.provisional.items()
        ]
        covered = Coverage.at(self._open(self.layout.coverage)).count_hours(self.of, self.name)
        return [
            *tiles,
            *([("coverage", f"{covered:,} row(s) of {self.of} {self.name} are deleted")] if covered else []),
        ]

    def delete(self, sequence: int) -> None:
        """Delete the tiles, and take the hours out of coverage. The reset that does it has this ``sequence``, and
        progress has it already. Raises ConflictError when another process writes to the tables.
        """
        for table in self.provisional.values():
            commits.delete(table, None, {"reset": sequence})
        if coverage := self._open(self.layout.coverage):
            # The first publication makes the tables of what is kept under its number, and coverage is made before.
            for kept in filter(None, map(self._open, (self.layout.drift, self.layout.quality))):
                drop_unpublished(kept, coverage)
                # Coverage gets a version that is no publication. A frozen recompute must keep no rows under its number.
                commits.fence(kept)
            commits.delete(coverage, condition_on(self.of, self.name), {"reset": sequence})

    def _open(self, uri: str) -> DeltaTable | None:
        """The newest version of a table. None: it is not there."""
        options = self.layout.storage_options
        return open_table(uri, options) if exists(uri, options) else None
