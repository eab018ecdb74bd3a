"""Looks for findings: at a snapshot of the tables, the workspace, and what was recorded before."""

from dataclasses import replace
from datetime import datetime

import duckdb

from hourline_core.findings.evaluate import evaluate
from hourline_core.findings.read_facts import FactsReader, read_speed_facts
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project

_OF_A_SOURCE = ("progress", "source_hours", "gaps", "decoded", "rejected", "quarantine")


def tables_to_look_at(snapshot: Snapshot) -> set[str]:
    """The tables and views of ``snapshot`` that ``look`` reads, as far as there are such."""
    of_sources = {f"hourline.{kind}_{source}" for kind in _OF_A_SOURCE for source in snapshot.progress}
    return {"hourline.progress", "hourline.metric_hours", *of_sources}


def look(project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, now: datetime) -> list[Finding]:
    """What is found at ``now`` (UTC): findings that fail first. ``database`` has the ``tables_to_look_at`` of
    ``snapshot``. It writes nothing, so anybody may look at any time. Raises duckdb.Error.
    """
    reader = FactsReader(project, database, snapshot, now)
    sources = [reader.read(source) for source in project.sources.values()]
    seen = [facts.recent.last for facts in sources if facts.recent]
    return evaluate(project.settings, sources, replace(read_speed_facts(project), seen=max(seen, default=None)), now)
