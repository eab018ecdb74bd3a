"""Confirmations: the gaps whose hours a person relies on all the same."""

from datetime import datetime

import pyarrow as pa

from hourline_core.errors import UsageError
from hourline_core.ledger.layout import CONFIRMATION_SCHEMA, Layout
from hourline_core.model import Project, Source
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import PUBLISHED


def confirm_gap(project: Project, source: Source, sequence: int, person: str, reason: str, moment: datetime) -> None:
    """Keep that ``person`` has confirmed the gap of ``sequence`` at ``moment`` (UTC), and why. Its hours are no longer
    incomplete. Raises TableError, UsageError when somebody has confirmed it before, and ConflictError when another
    process confirms a gap at the same time.
    """
    layout = Layout.of(project)
    table = open_or_create(
        layout.confirmations,
        layout.storage_options,
        "confirmations",
        CONFIRMATION_SCHEMA,
        PUBLISHED,
        "gaps that a person has confirmed",
    )
    for known in table.to_pyarrow_table(filters=[("sequence", "=", sequence)]).to_pylist():
        if known["source"] == source.name:
            raise UsageError(
                f"{source.name}.{sequence} was confirmed on {known['confirmed']:%Y-%m-%d} by {known['person']}"
            )
    row = {"source": source.name, "sequence": sequence, "confirmed": moment, "person": person, "reason": reason}
    commits.append(table, pa.Table.from_pylist([row], CONFIRMATION_SCHEMA), {"confirmed": f"{source.name}.{sequence}"})
