"""Findings as `hourline quality` and HTTP tell them: of sources over a span of arrival, and of the speed layer."""

from datetime import datetime, timedelta
from typing import Any, Literal

from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import read_findings
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.findings_view import find_open

_TOLD_FOR = timedelta(days=1)
"""A finding that was closed within this time is told, too."""


class SourceFinding(Described):
    """What a person should know of a source, over a span of arrival, or of the speed layer."""

    kind: str
    """What kind of finding it is: the key of its bound in the declaration."""
    source: str | None
    """The name of the source. Null: it is about the speed layer, or the reports."""
    severity: Literal["fail", "warn"]
    """`fail`: the hourly run fails. `warn`: it is only told."""
    first: datetime
    """The beginning of the span of arrival that it is about (UTC)."""
    last: datetime
    """The end of that span (UTC)."""
    sentence: str
    """What was found, in one sentence."""
    numbers: dict[str, Any]
    """The numbers in it."""
    example: str | None
    """The address of one of its records. Null: there is none."""
    remedy: str
    """The command to run, or the line of the declaration to change."""
    opened: datetime | None
    """When a run of the batch layer found it first (UTC). Null: none has run since."""
    closed: datetime | None
    """When a run found that its cause had gone (UTC). Null: it is open."""


def find_findings(connection: Connection) -> list[Finding]:
    """What is found now: findings that fail first. Nothing need run for it."""
    with connection.naming_damage():
        return find_open(connection.project, connection.database, connection.snapshot, connection.now)


def closed_findings(connection: Connection) -> list[Finding]:
    """The findings that a run has closed within the last day, the newest first."""
    recorded = read_findings(connection.project, connection.now - _TOLD_FOR)
    return sorted((one for one in recorded if one.closed), key=lambda one: one.closed or one.last, reverse=True)


def describe_finding(one: Finding) -> SourceFinding:
    """``one`` as it is answered."""
    return SourceFinding(**{name: getattr(one, name) for name in SourceFinding.model_fields})
