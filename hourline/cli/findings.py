"""Prints findings of sources and of the speed layer: what was found, since when, and what to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hourline.cli.output import note, say, say_facts, say_heading
from hourline_core.ledger.finding import subject_of

if TYPE_CHECKING:
    from hourline_core.ledger.finding import Finding
    from serving_layer.reports.findings import SourceFinding


def say_finding(finding: "SourceFinding") -> None:
    """Print a finding that is open."""
    subject, kind = subject_of(finding.source, finding.kind), finding.kind.replace("_", " ")
    say_heading(f"{subject}  ", finding.severity, f"  {kind}")
    span = f"{finding.first:%Y-%m-%d %H:%M} to {finding.last:%Y-%m-%d %H:%M} UTC"
    facts = {
        "found": finding.sentence,
        "arrival": span,
        "example": finding.example,
        "since": finding.opened and f"{finding.opened:%Y-%m-%d %H:%M} UTC",
        "remedy": finding.remedy,
    }
    say_facts([(name, [text]) for name, text in facts.items() if text])


def say_closed(findings: "Sequence[SourceFinding]") -> None:
    """Print a line for each finding that was closed."""
    for one in findings:
        kind = one.kind.replace("_", " ")
        say(f"closed at {one.closed:%Y-%m-%d %H:%M} UTC: {subject_of(one.source, one.kind)}, {kind}: {one.sentence}")


def note_findings(findings: "Sequence[Finding] | Sequence[SourceFinding]") -> None:
    """Print a line for each finding, beside what a command says of hours."""
    for one in findings:
        note(f"{subject_of(one.source, one.kind)}: {one.sentence} ({one.severity}; see `hourline quality`)")
