"""Reads every data file that answers may use, and finds those that have changed, also by flipped bits that still
decode.

Delta keeps no checksums of data files, so Hourline keeps them. A file that is seen for the first time is decoded, and
its checksum is noted. Data files never change, so the checksum must stay the same. A bit that flipped before its file
was first seen, and still decodes, is not found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.ledger.layout import CHECKSUMS_SCHEMA, Layout
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.lease import turn
from hourline_core.storage import commits, data_files
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import vacuum
from hourline_core.storage.version_retention import KEPT_HOURS, STREAMED


@dataclass(frozen=True)
class Verified:
    """What was found."""

    files: int
    """The number of data files that were read."""
    seen_first: int
    """The number of files that were read for the first time."""
    damage: list[str]
    """One sentence for each damaged file."""


@dataclass(frozen=True)
class Verification:
    """One check of all data files of the newest snapshot."""

    project: Project
    clock: Clock = wall_clock
    on_waiting: Callable[[int], None] = lambda process: None
    """Called with the process that this one waits for, while that recomputes."""

    def run(self, on_files: Callable[[int], Callable[[int], None]]) -> Verified:
        """Read all files. ``on_files`` is called with their number, and returns a function that is called with the
        number read so far. Raises ConflictError, TableError.
        """
        layout = Layout.of(self.project)
        with turn(self.project.workspace, "batch", self.on_waiting):
            files = self._files(layout)
            kept = open_or_create(
                layout.checksums,
                layout.storage_options,
                "checksums",
                CHECKSUMS_SCHEMA,
                STREAMED,
                "checksums of data files",
            )
            noted = {(row["table"], row["file"]): row for row in kept.to_pyarrow_table().to_pylist()}
            move = on_files(len(files))
            rows, damage = [], []
            for number, (key, table) in enumerate(sorted(files.items(), key=itemgetter(0)), start=1):
                row, wrong = self._verify_file(key, table, noted.get(key))
                rows += [row] if row else []
                damage += [data_files.describe_damage(table, key[1], wrong)] if wrong else []
                move(number)
            first = sum((row["table"], row["file"]) not in noted for row in rows)
            if first or len(rows) < len(noted):
                commits.overwrite(kept, pa.Table.from_pylist(rows, CHECKSUMS_SCHEMA), None, {"files": len(rows)})
                vacuum(kept, KEPT_HOURS)
        return Verified(len(files), first, damage)

    def _files(self, layout: Layout) -> dict[tuple[str, str], DeltaTable]:
        """By table and path, the data files of all versions that the newest snapshot reads."""
        opened = [
            (name, open_table(f"{layout.root}/{name}", layout.storage_options, version))
            for name, versions in take_snapshot(self.project).versions.items()
            for version in versions
        ]
        return {(name, path): table for name, table in opened for path in data_files.data_files(table)}

    def _verify_file(
        self, key: tuple[str, str], table: DeltaTable, noted: dict[str, Any] | None
    ) -> tuple[dict[str, Any] | None, str | None]:
        """The row of CHECKSUMS_SCHEMA to keep of a file, and what is wrong with it. ``noted`` is the row so far."""
        name, path = key
        try:
            checksum = data_files.checksum(table, path)
        except FileNotFoundError:
            return noted, "is missing"
        except OSError as error:
            return noted, f"cannot be read ({error})"
        if noted is None:
            if wrong := data_files.find_decoding_error(table, path):
                return None, wrong
            return {"table": name, "file": path, "checksum": checksum, "seen": self.clock()}, None
        if checksum == noted["checksum"]:
            return noted, None
        return noted, f"is not what it was when it was first seen, at {noted['seen']:%Y-%m-%dT%H:%M:%SZ}"
