"""The results of metrics, which a reset deletes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from hourline_core.ledger.coverage import Coverage, condition_on
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.unfinished_publication import drop_unpublished
from hourline_core.model import Project
from hourline_core.storage import commits
from hourline_core.storage.opening import exists, open_table
from speed_layer.reset.tables import ResetTables, Touched, count_rows


@dataclass(frozen=True)
class Results:
    """What was computed of some ``metrics`` of one source."""

    metrics: Sequence[str]
    provisional: Mapping[tuple[str, str], DeltaTable]
    """By metric and declaration."""
    layout: Layout

    @classmethod
    def of(cls, project: Project, tables: ResetTables, metrics: Sequence[str]) -> "Results":
        """Those of ``metrics``, whose tiles are in ``tables``."""
        provisional = {of: table for of, table in tables.provisional.items() if of[0] in metrics}
        return cls(metrics, provisional, Layout.of(project))

    def touched(self) -> list[Touched]:
        """What ``delete`` changes, in words. Raises TableError."""
        touched = [
            (f"provisional/{name}/{declaration}", f"all of its {count_rows(table):,} row(s) are deleted")
            for (name, declaration), table in self.provisional.items()
        ]
        covering = Coverage.at(self._open(self.layout.coverage))
        for metric in self.metrics:
            if covered := covering.hours(metric):
                touched.append(("coverage", f"{len(covered):,} hour(s) of {metric} are taken out"))
        return touched

    def delete(self, sequence: int) -> None:
        """Delete the tiles, and take the hours out of coverage. The reset that does it has this ``sequence``, and
        progress has it already. Raises ConflictError when another process writes to the tables.
        """
        for table in self.provisional.values():
            commits.delete(table, None, {"reset": sequence})
        coverage = self._open(self.layout.coverage)
        if coverage and self.metrics:
            # The first publication makes the tables of what is kept under its number, and coverage is made before.
            for kept in filter(None, map(self._open, (self.layout.drift, self.layout.quality))):
                drop_unpublished(kept, coverage)
                # Coverage gets a version that is no publication. A frozen recompute must keep no rows under its number.
                commits.fence(kept)
            commits.delete(coverage, " OR ".join(map(condition_on, self.metrics)), {"reset": sequence})

    def _open(self, uri: str) -> DeltaTable | None:
        """The newest version of a table. None: it is not there."""
        options = self.layout.storage_options
        return open_table(uri, options) if exists(uri, options) else None
