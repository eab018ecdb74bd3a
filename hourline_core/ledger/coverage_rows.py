"""The four kinds of row in coverage, as types and as Arrow rows.

The columns that are null say which kind a row is. Only this file reads that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from hourline_core.ledger.columns import Column, Columns, schema_of
from hourline_core.ledger.layout import TIMESTAMP

COVERAGE_COLUMNS: Columns = {
    "metric": Column(pa.string(), "The name of the metric."),
    "declaration": Column(pa.string(), "The hash of the metric's declaration."),
    "source": Column(pa.string(), "The name of the metric's source."),
    "hour": Column(TIMESTAMP, "The hour. Null in rows about the declaration as a whole: a promotion or a compaction."),
    "cutoff": Column(
        pa.int64(),
        "The sequence up to which the published recompute counted events. Null in a blocked hour that was never "
        "published, and in a compaction.",
    ),
    "version": Column(
        pa.int64(), "The version of the final table. A declaration's highest one counts, for all its hours."
    ),
    "published": Column(TIMESTAMP, "When it was published."),
    "blocked_cutoff": Column(
        pa.int64(), "In a blocked hour: the cutoff of the recompute that did not pass its audit. Null in other rows."
    ),
    "staged": Column(
        pa.int64(),
        "In a blocked hour: the version of the staged table with the rows of that recompute. Null in other rows.",
    ),
    "expectations": Column(
        pa.string(),
        "In a blocked hour: the hash of the expectations of that audit; empty if the audit itself failed. Null in "
        "other rows.",
    ),
    "decoding": Column(
        pa.string(),
        "The decoding of the source by which the published recompute counted events. Null in other rows, and in hours "
        "that an earlier Hourline 0.2 published.",
    ),
    "blocked_decoding": Column(
        pa.string(),
        "In a blocked hour: the decoding of the source by which that recompute counted events. Null in other rows, and "
        "in hours that an earlier Hourline 0.2 blocked.",
    ),
    "lookups": Column(
        pa.string(),
        "The versions of the source's lookups that the published result is of, as JSON: those that the recompute used, "
        "or later ones in which the events of the hour meet the same rows. Null: none, or other rows.",
    ),
    "changed_lookups": Column(
        pa.string(),
        "The lookups in which events of the hour meet other rows since, as JSON: the hour is `stale`. Null: none.",
    ),
    "lookups_as_of": Column(
        TIMESTAMP,
        "The moment that a person has asked for these versions of. The hour does not become `stale`. Null: none.",
    ),
    "blocked_lookups": Column(
        pa.string(), "In a blocked hour: the versions of lookups that that recompute used, as JSON. Null: as above."
    ),
}
COVERAGE_SCHEMA = schema_of(COVERAGE_COLUMNS)
_OF_COVERED = ("decoding", "lookups", "changed_lookups", "lookups_as_of")
NO_CUTOFF = -1
"""Below all sequences: it stands for the cutoff of an hour that is not covered, where sequences are compared."""


@dataclass(frozen=True)
class CoveredHour:
    """An hour of a metric whose final tiles count."""

    metric: str
    declaration: str
    source: str
    hour: datetime
    cutoff: int
    """The sequence up to which its recompute counted events."""
    version: int
    """The version of the final table that published it."""
    published: datetime
    decoding: str | None = None
    """The hash of the decoding by which its events were counted. None: an earlier Hourline 0.2 published it."""
    lookups: str | None = None
    """The versions of the source's lookups that it is of, as a JSON object by name. None: there are none."""
    changed_lookups: str | None = None
    """The lookups in which its events meet other rows since, as a JSON list of names. None: there are none."""
    lookups_as_of: datetime | None = None
    """The moment (UTC) that a person has asked for these versions of, so that it does not become stale. None: no such
    moment.
    """


@dataclass(frozen=True)
class BlockedHour:
    """An hour whose last recompute did not pass its audit. What was published before still counts."""

    metric: str
    declaration: str
    source: str
    hour: datetime
    blocked_cutoff: int
    """The sequence up to which that recompute counted events."""
    staged: int
    """The version of the staged table that holds its rows."""
    expectations: str
    """The hash of the expectations of its audit. Empty if the audit itself failed."""
    covered: CoveredHour | None
    """What was published before. None: nothing was."""
    blocked_decoding: str | None = None
    """The hash of the decoding by which that recompute counted events. None: an earlier Hourline 0.2 blocked it."""
    blocked_lookups: str | None = None
    """The versions of lookups that that recompute used, as in CoveredHour."""


@dataclass(frozen=True)
class Promotion:
    """A changed declaration is served under its metric's name from this publication on."""

    metric: str
    declaration: str
    source: str
    cutoff: int
    version: int
    published: datetime


@dataclass(frozen=True)
class CompactedFinal:
    """A later version of the final table with the same rows in fewer files."""

    metric: str
    declaration: str
    source: str
    version: int
    published: datetime


CoverageRow = CoveredHour | BlockedHour | Promotion | CompactedFinal


def to_arrow(rows: Iterable[CoverageRow]) -> pa.Table:
    """The rows as coverage keeps them (COVERAGE_SCHEMA)."""
    return pa.Table.from_pylist([_columns(row) for row in rows], COVERAGE_SCHEMA)


def from_arrow(rows: pa.Table) -> list[CoverageRow]:
    """The typed rows of a table of COVERAGE_SCHEMA."""
    return [_row(columns) for columns in rows.to_pylist()]


def _columns(row: CoverageRow) -> dict[str, Any]:
    covered = row.covered if isinstance(row, BlockedHour) else None
    return {**(vars(covered) if covered else {}), **vars(row)}


def _row(columns: Mapping[str, Any]) -> CoverageRow:
    of = (columns["metric"], columns["declaration"], columns["source"])
    published = (columns["cutoff"], columns["version"], columns["published"])
    hour = columns["hour"]
    if hour is None:
        return CompactedFinal(*of, *published[1:]) if columns["cutoff"] is None else Promotion(*of, *published)
    covered = (
        None
        if columns["cutoff"] is None
        else CoveredHour(*of, hour, *published, *(columns[name] for name in _OF_COVERED))
    )
    if covered is not None and columns["staged"] is None:
        return covered
    blocked = (columns["blocked_cutoff"], columns["staged"], columns["expectations"])
    return BlockedHour(*of, hour, *blocked, covered, columns["blocked_decoding"], columns["blocked_lookups"])
