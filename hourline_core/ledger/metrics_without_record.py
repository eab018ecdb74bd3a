"""Metrics over events that were archived before the whole record was."""

from datetime import datetime

from hourline_core.ledger.layout import Layout
from hourline_core.model import Metric, Project
from hourline_core.model.identity import names_record
from hourline_core.storage.file_ranges import last_with_nulls
from hourline_core.storage.opening import exists, open_table


def metrics_without_record(project: Project) -> list[tuple[Metric, datetime]]:
    """The metrics that name ``record``, of sources with events that an earlier Hourline 0.2 has archived; each with the
    newest hour (UTC) that may have such events. Only the logs of the tables are read. Raises TableError.
    """
    layout = Layout.of(project)
    affected = []
    for source in project.sources.values():
        naming = [metric for metric in project.metrics_of(source.name) if names_record(source, metric)]
        if naming and exists(layout.events(source), layout.storage_options):
            events = open_table(layout.events(source), layout.storage_options)
            if hour := last_with_nulls(events, "record.arrived", by="hour"):
                affected += [(metric, hour) for metric in naming]
    return affected
