"""The maintenance of one table by its owner. A dry run only reports what it would do."""

from collections.abc import Collection
from dataclasses import dataclass, field

from deltalake import DeltaTable

from hourline_core.storage.compaction import compact, count_compactable
from hourline_core.storage.vacuum import list_vacuumable, vacuum


@dataclass
class TableMaintenance:
    """One table, and what was done to it."""

    name: str
    """Its path below the root of the tables."""
    table: DeltaTable
    dry_run: bool = False
    done: list[str] = field(default_factory=list)
    """In words."""

    @property
    def line(self) -> list[str]:
        """One line with everything that was done. Empty: nothing was."""
        return [f"{self.name}: {'would have ' if self.dry_run else ''}{', '.join(self.done)}"] if self.done else []

    def compact(self, by: str, saving: int = 1) -> bool:
        """Merge small files if that saves ``saving`` files, and return whether it did. Raises ConflictError."""
        less = count_compactable(self.table, by)
        if less < saving:
            return False
        before = len(self.table.file_uris())
        if not self.dry_run:
            compact(self.table, by)
        self.done.append(
            f"{before:,} files compacted into {before - less if self.dry_run else len(self.table.file_uris()):,}"
        )
        return True

    def vacuum(self, kept_hours: int, kept_versions: Collection[int] = ()) -> None:
        """Delete files that nobody needs any more; see ``vacuum``. Raises ConflictError, TableError."""
        files = list_vacuumable(self.table, kept_hours, kept_versions)
        if not files:
            return
        if not self.dry_run:
            vacuum(self.table, kept_hours, kept_versions)
        self.done.append(f"{len(files):,} old files deleted ({size_text(sum(file.size for file in files))})")


def size_text(size: int) -> str:
    """A number of bytes as ``3.2 MB``."""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB"):
        if amount >= 1000:
            amount, unit = amount / 1000, larger
    return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
