"""A finding: what a person should know of a source, over a span of arrival, or of the speed layer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Severity = Literal["fail", "warn"]

REPORTS = "reports"
"""The kind of the one finding that is about the reports."""


@dataclass(frozen=True)
class Finding:
    """What a person should know of a source. Times are in UTC."""

    kind: str
    source: str | None
    """None: it is about the speed layer, or the reports."""
    severity: Severity
    first: datetime
    """The beginning of the span of arrival that it is about."""
    last: datetime
    sentence: str
    remedy: str
    """The command to run, or the line of the declaration to change."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    example: str | None = None
    """The address of one of its records."""
    opened: datetime | None = None
    """When a run of the batch layer found it first. None: none has yet."""
    closed: datetime | None = None
    """When a run found that its cause had gone. None: it is open."""
    opened_in: int | None = None
    """The version of the table of findings that recorded its opening. None: none has, or an older Hourline did."""
    closed_in: int | None = None
    """The same, of its closing."""

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two findings the same while it is open."""
        return self.source or "", self.kind

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return subject_of(self.source, self.kind)

    @property
    def fails(self) -> bool:
        """Whether it makes a run fail."""
        return self.severity == "fail"


def subject_of(source: str | None, kind: str | None) -> str:
    """What a finding of a ``kind`` is about, in words: its source, the reports, or the speed layer."""
    return source or ("reports" if kind == REPORTS else "speed layer")
