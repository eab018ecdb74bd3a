"""Coverage: which version of each metric's final table counts, up to which cutoff, and which hours are blocked.

Its commit is the publication, of all metrics at once. Only this file and coverage_rows.py know its columns; the SQL
over it is in ``hourline_core.sql``. Coverage has a row for each hour of years, so it is filtered as Arrow, and only the
requested rows become Python objects.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.coverage_rows import (
    COVERAGE_SCHEMA,
    BlockedHour,
    CompactedFinal,
    CoverageRow,
    CoveredHour,
    from_arrow,
    to_arrow,
)
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.model import DeclaredMetric, Project
from hourline_core.model.hours import HourRange, sql_timestamp
from hourline_core.storage.data_files import data_files, local_folder, read_rows
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import Table, once

_KEY = ["metric", "declaration", "hour"]


class HourVersions(NamedTuple):
    """The versions for an hour of one declaration. None: it was never published, or is not blocked."""

    final: int | None
    staged: int | None
    decoding: str | None = None
    """The hash of the decoding by which it was published. None: it is not known."""
    blocked_decoding: str | None = None
    """The hash of the decoding by which it was blocked. None: it is not blocked, or that is not known."""


@dataclass(frozen=True)
class Coverage:
    """The rows of coverage at one version of its table, or some of them."""

    rows: pa.Table = field(repr=False)
    """COVERAGE_SCHEMA."""
    publication: int | None
    """The number of the last publication, which is the version of the table. None: nothing was published yet."""

    @classmethod
    def empty(cls) -> "Coverage":
        """Before the first publication."""
        return cls(COVERAGE_SCHEMA.empty_table(), None)

    @classmethod
    def at(cls, table: DeltaTable | None) -> "Coverage":
        """All rows, at the version that the table is open at. None: there is no table yet. Raises TableError."""
        if table is None:
            return cls.empty()
        rows = once(table, "rows", partial(_read, table))
        # An older version of Hourline made the table with fewer columns.
        rows = pa.concat_tables([COVERAGE_SCHEMA.empty_table(), rows], promote_options="default")
        # Version 0 is the empty table, as it was created.
        return cls(rows.cast(COVERAGE_SCHEMA), table.version() or None)

    def of(self, metric: str, declaration: str) -> "DeclarationCoverage":
        """The rows about one declaration of a metric."""
        own = self._by_declaration.get((metric, declaration), self.rows.slice(0, 0))
        return DeclarationCoverage(own, self.publication)

    @cached_property
    def _by_declaration(self) -> dict[tuple[str, str], pa.Table]:
        """The rows of each declaration, in their order. To filter all rows for each would cost metrics times rows."""
        names = self.rows.select(["metric", "declaration"]).append_column(
            "row", pa.array(np.arange(self.rows.num_rows))
        )
        of = names.group_by(["metric", "declaration"], use_threads=False).aggregate([("row", "list")])
        keys = zip(of["metric"].to_pylist(), of["declaration"].to_pylist(), strict=True)
        sorted_rows = self.rows.take(of["row_list"].combine_chunks().flatten())
        ends = accumulate(pc.list_value_length(of["row_list"]).to_pylist(), initial=0)
        return {
            key: sorted_rows.slice(start, end - start) for key, (start, end) in zip(keys, pairwise(ends), strict=True)
        }

    def about(self, declared: Iterable[DeclaredMetric]) -> "Coverage":
        """The rows about these declarations."""
        names = pc.binary_join_element_wise(self.rows["metric"], self.rows["declaration"], "_")
        chosen = pc.is_in(names, pa.array([one.name for one in declared], pa.string()))
        return Coverage(self.rows.filter(chosen), self.publication)

    def within(self, hours: HourRange) -> "Coverage":
        """The rows about these hours."""
        chosen = (pc.field("hour") >= hours.start) & (pc.field("hour") < hours.end)
        return Coverage(self.rows.filter(chosen), self.publication)

    def declarations(self) -> set[tuple[str, str]]:
        """The metrics and declarations that have rows."""
        return {
            (of["metric"], of["declaration"])
            for of in self.rows.group_by(["metric", "declaration"]).aggregate([]).to_pylist()
        }

    def decodings(self) -> set[str]:
        """The hashes of the decodings by which the covered and blocked hours were counted."""
        named = pa.chunked_array([*self.rows["decoding"].chunks, *self.rows["blocked_decoding"].chunks], pa.string())
        return set(pc.unique(named.drop_null()).to_pylist())

    def count_hours(self, column: Literal["metric", "source"], name: str) -> int:
        """The number of rows about hours that are covered or blocked, of all declarations of a metric, or over a
        source.
        """
        return len(self.rows.filter(pc.equal(self.rows[column], name))["hour"].drop_null())

    def versions(self) -> dict[tuple[str, str, datetime], HourVersions]:
        """By metric, declaration and hour, the versions of the tables that hold its rows."""
        rows = self._hours().select([*_KEY, "version", "staged", "decoding", "blocked_decoding"]).to_pylist()
        return {
            (row["metric"], row["declaration"], row["hour"]): HourVersions(
                row["version"], row["staged"], row["decoding"], row["blocked_decoding"]
            )
            for row in rows
        }

    def blocked(self) -> list[BlockedHour]:
        """The hours that did not pass their last audit."""
        rows = from_arrow(self.rows.filter(pc.is_valid(self.rows["staged"])))
        return [row for row in rows if isinstance(row, BlockedHour)]

    def published_since(self, moment: datetime) -> list[CoveredHour]:
        """The hours whose published rows have counted since ``moment`` (UTC) or later, including those that are
        blocked now.
        """
        rows = self._hours()
        later = pc.greater_equal(rows["published"], pa.scalar(moment, TIMESTAMP))
        return [covered for row in from_arrow(rows.filter(later)) if (covered := _covered(row))]

    def newest_hours(self) -> dict[str, datetime]:
        """By source, the newest hour that is covered or blocked."""
        return {source: hour for source, hour in self._highest("source", "hour").items() if hour is not None}

    def highest_cutoffs(self) -> dict[str, int]:
        """By source, the highest cutoff. Sources without a cutoff are absent."""
        return {source: cutoff for source, cutoff in self._highest("source", "cutoff").items() if cutoff is not None}

    def cutoffs_beyond(self, sequences: Mapping[str, int]) -> list[str]:
        """The sources, sorted, that have rows here but no progress, or a cutoff above their last finished sequence.

        ``sequences`` are the last finished ones by source.
        """
        highest = self._highest("source", "cutoff")
        return sorted(
            source for source, cutoff in highest.items() if source not in sequences or (cutoff or 0) > sequences[source]
        )

    def recomputed_up_to(self, source: str) -> set[int]:
        """The cutoffs of all recomputes of hours of ``source``, including blocked ones."""
        own = self.rows.filter(pc.equal(self.rows["source"], source))
        cutoffs = (own[name].drop_null().unique().to_pylist() for name in ("cutoff", "blocked_cutoff"))
        return {cutoff for some in cutoffs for cutoff in some}

    def replacement(self, fresh: Iterable[CoverageRow]) -> tuple[pa.Table, str]:
        """What a publication of ``fresh`` writes, and the condition (SQL) on the rows that this replaces.

        It replaces the rows of the same metric, declaration and hour. A promotion also replaces the one of another
        declaration of its metric. Delta replaces by condition: other rows that fulfil it are written again unchanged.
        """
        rows, hours = self._replacement(fresh)
        listed = ", ".join(f"'{sql_timestamp(hour)}'" for hour in hours.to_pylist())
        return rows, f"hour IN ({listed}) OR hour IS NULL"

    def with_replacement(self, fresh: Iterable[CoverageRow]) -> pa.Table:
        """All rows in order, once ``fresh`` is published."""
        rows, hours = self._replacement(fresh)
        others = self._hours()
        others = others.filter(pc.invert(pc.is_in(others["hour"], hours)))
        return _sort(pa.concat_tables([others, rows]))

    def _replacement(self, fresh: Iterable[CoverageRow]) -> tuple[pa.Table, pa.Array]:
        """The rows without an hour, and those of the hours of ``fresh``, once it is published; and these hours."""
        added = to_arrow(fresh)
        hours = pc.unique(added["hour"].drop_null())
        of_hours = self.rows.filter(pc.is_in(self.rows["hour"], hours))
        carried = of_hours.join(added.select(_KEY), _KEY, join_type="left anti").select(COVERAGE_SCHEMA.names)
        whole = self.rows.filter(pc.is_null(self.rows["hour"]))
        promoted = added.filter(pc.is_null(added["hour"]))["metric"]
        overtaken = pc.and_(pc.is_valid(whole["cutoff"]), pc.is_in(whole["metric"], promoted))
        rows = pa.concat_tables([carried, whole.filter(pc.invert(overtaken)), added])
        return _sort(rows), hours

    def with_compacted(self, row: CompactedFinal) -> pa.Table:
        """All rows in order, with ``row`` in place of an earlier compaction of the same declaration."""
        whole = pc.and_(pc.is_null(self.rows["hour"]), pc.is_null(self.rows["cutoff"]))
        own = pc.and_(pc.equal(self.rows["metric"], row.metric), pc.equal(self.rows["declaration"], row.declaration))
        others = self.rows.filter(pc.invert(pc.and_(whole, own)))
        return _sort(pa.concat_tables([others, to_arrow([row])]))

    def with_lookups(self, lookups: Sequence[str | None], changed: Sequence[str | None]) -> pa.Table:
        """All rows in order, with other values of ``lookups`` and ``changed_lookups``, given in the order of rows."""
        rows = self.rows
        for name, values in (("lookups", lookups), ("changed_lookups", changed)):
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values, pa.string()))
        return _sort(rows.cast(COVERAGE_SCHEMA))

    def stale_hours(self) -> dict[str, set[tuple[str, datetime]]]:
        """By lookup, the hours (source, hour in UTC) whose events meet other rows of it since they were published."""
        rows = self.rows.filter(pc.is_valid(self.rows["changed_lookups"]))
        found: dict[str, set[tuple[str, datetime]]] = {}
        for row in rows.select(["source", "hour", "changed_lookups"]).to_pylist():
            for name in json.loads(row["changed_lookups"]):
                found.setdefault(name, set()).add((row["source"], row["hour"]))
        return found

    def in_order(self) -> pa.Table:
        """All rows by metric, declaration and hour."""
        return _sort(self.rows)

    def _hours(self) -> pa.Table:
        return self.rows.filter(pc.is_valid(self.rows["hour"]))

    def _highest(self, key: str, value: str) -> dict[str, Any]:
        """By ``key``, the highest ``value``. None if all are null."""
        highest = self.rows.group_by(key).aggregate([(value, "max")])
        return {row[key]: row[f"{value}_max"] for row in highest.to_pylist()}


@dataclass(frozen=True)
class DeclarationCoverage:
    """The rows of coverage about one declaration of a metric."""

    rows: pa.Table = field(repr=False)
    """COVERAGE_SCHEMA."""
    publication: int | None
    """As in ``Coverage``."""

    @property
    def source(self) -> str:
        """The name of its source. Raises IndexError if there are no rows."""
        return str(self.rows["source"][0].as_py())

    def pinned(self) -> int | None:
        """The version of its final table that counts, for all its hours. None: nothing was published."""
        return _int(pc.max(self.rows["version"]))

    def staged_versions(self) -> list[int]:
        """The versions of its staged table that hold the rows of blocked hours, sorted."""
        return sorted(self.rows["staged"].drop_null().unique().to_pylist())

    def blocked_hours(self) -> int:
        """The number of hours that did not pass their last audit."""
        return len(self.rows["staged"].drop_null())

    def promoted(self) -> datetime | None:
        """When it was promoted (UTC). None: it was not."""
        rows = self.rows.filter(pc.and_(pc.is_null(self.rows["hour"]), pc.is_valid(self.rows["cutoff"])))
        moment: datetime | None = pc.max(rows["published"]).as_py()
        return moment

    def covered(self, hours: Collection[datetime]) -> dict[datetime, CoveredHour]:
        """What was published of ``hours``, including blocked ones."""
        rows = from_arrow(self._among(hours))
        return {covered.hour: covered for row in rows if (covered := _covered(row))}

    def cutoffs(self, hours: Collection[datetime] | None = None) -> dict[datetime, int]:
        """By covered hour (of ``hours``, or all), the sequence up to which its recompute counted."""
        rows = self.rows if hours is None else self._among(hours)
        rows = rows.filter(pc.and_(pc.is_valid(rows["hour"]), pc.is_valid(rows["cutoff"])))
        return dict(zip(rows["hour"].to_pylist(), rows["cutoff"].to_pylist(), strict=True))

    def is_promoted(self, complete_from: int) -> bool:
        """Whether coverage has every hour that this declaration's provisional rows, complete from ``complete_from``
        on, lack.
        """
        cutoff = _int(pc.max(self.rows.filter(pc.is_null(self.rows["hour"]))["cutoff"]))
        return cutoff is not None and cutoff >= complete_from - 1

    def _among(self, hours: Collection[datetime]) -> pa.Table:
        return self.rows.filter(pc.is_in(self.rows["hour"], pa.array(list(hours), TIMESTAMP)))


def _read(table: DeltaTable) -> pa.Table:
    """All rows. Raises TableError."""
    if local_folder(table.table_uri) is None:  # Arrow reads distant files at once.
        return table.to_pyarrow_table()
    return read_rows(table, data_files(table))


def open_coverage(project: Project, opened: OpenTables, version: int | None = None) -> Table | None:
    """The table coverage, at its newest version or a given one; None before it is created. Raises TableError."""
    return opened.find(Layout.of(project).coverage, version)


def read_coverage(project: Project, version: int | None = None) -> Coverage:
    """All of coverage, at its newest version or a given one. Raises TableError."""
    with OpenTables(project.settings.storage_options) as opened:
        return Coverage.at(open_coverage(project, opened, version))


def condition_on(column: Literal["metric", "source"], name: str) -> str:
    """The condition (SQL) on all rows about a metric, or those that were computed over a source."""
    return f"{column} = '{name}'"


def _covered(row: CoverageRow) -> CoveredHour | None:
    if isinstance(row, BlockedHour):
        return row.covered
    return row if isinstance(row, CoveredHour) else None


def _sort(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in _KEY])


def _int(scalar: pa.Scalar) -> int | None:
    value: int | None = scalar.as_py()
    return value
