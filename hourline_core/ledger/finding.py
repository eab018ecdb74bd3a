"""A finding: what a person should know of a source, over a span of arrival, or of the speed layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Severity = Literal["fail", "warn"]

_TOLD = 5
"""The maximum number of findings that one line names."""


@dataclass(frozen=True)
class Finding:
    """What a person should know of a source. Times are in UTC."""

    kind: str
    source: str | None
    """None: it is about the speed layer."""
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

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two findings the same while it is open."""
        return self.source or "", self.kind

    @property
    def fails(self) -> bool:
        """Whether it makes a run fail."""
        return self.severity == "fail"


def findings_in_one_line(findings: Sequence[Finding]) -> str | None:
    """What is found, by source, kind and severity. None: nothing is."""
    if not findings:
        return None
    told = [f"{one.source or 'speed layer'}: {one.kind.replace('_', ' ')} ({one.severity})" for one in findings]
    more = [f"{len(told) - _TOLD:,} more"] if len(told) > _TOLD else []
    return f"findings: {'; '.join([*told[:_TOLD], *more])}; `hourline quality` says what to do"
