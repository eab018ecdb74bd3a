"""Reads which findings were opened and closed, from their table alone."""

from dataclasses import dataclass
from datetime import datetime

from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import open_findings, read_recorded
from hourline_core.model import Project
from hourline_core.model.hours import iso_text


@dataclass(frozen=True)
class ChangedFinding:
    """A finding that was opened or closed."""

    finding: Finding
    """As it is recorded now."""
    is_closed: bool

    @property
    def id(self) -> str:
        """What identifies this entry of the feed, also when it comes again."""
        one, change = self.finding, "closed" if self.is_closed else "opened"
        return f"{one.source or ''}/{one.kind}/{iso_text(one.opened or one.first)}/{change}"

    @property
    def moment(self) -> datetime:
        """When it was recorded (UTC)."""
        one = self.finding
        return (one.closed if self.is_closed else one.opened) or one.first

    @property
    def version(self) -> int:
        """The version of the table that recorded it. 0: an older version of Hourline did."""
        return (self.finding.closed_in if self.is_closed else self.finding.opened_in) or 0


@dataclass(frozen=True)
class ChangedFindings:
    """The findings that some versions of the table have opened and closed."""

    changes: tuple[ChangedFinding, ...] = ()
    """In the order in which they were recorded."""
    up_to: int = 0
    """The newest version of the table: the position of who has read this. 0: there is no table."""


def findings_changed_after(project: Project, version: int | None) -> ChangedFindings:
    """What was opened and closed after ``version`` of the table, or ever, of what it keeps (None). A version that is
    not there yet is that of a table that was deleted: everything is given. Raises TableError.
    """
    table = open_findings(project)
    if table is None:
        return ChangedFindings()
    newest = int(table.version())
    if version == newest:
        return ChangedFindings((), newest)
    since = -1 if version is None or version > newest else version
    recorded = read_recorded(table)
    entries = [ChangedFinding(one, is_closed=False) for one in recorded]
    entries += [ChangedFinding(one, is_closed=True) for one in recorded if one.closed]
    changes = [one for one in entries if one.version > since]
    return ChangedFindings(tuple(sorted(changes, key=lambda one: (one.version, one.moment, one.is_closed))), newest)
