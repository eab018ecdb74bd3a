"""Writes the Data Docs pages of an audit, before its hours are published."""

from collections.abc import Sequence
from datetime import datetime

from batch_layer.audit.source_audit import AuditedSource
from batch_layer.reports.data_docs import write_page
from batch_layer.reports.site import writing
from hourline_core.ledger.report_pages import page_name, report_site
from hourline_core.model import Project


def write_pages(project: Project, publication: int, audited: Sequence[AuditedSource], moment: datetime) -> None:
    """Write the Data Docs pages of an audit, dated ``moment`` (UTC). Raises HourlineError when they cannot be
    written; then nothing is published.
    """
    with writing(project, "nothing was published"):
        for one in audited:
            source = one.staged.events.source.name
            for metric, result in one.pages.items():
                hours = sorted({finding.hour for finding in one.findings[metric]})
                told = hours[0] if len(hours) == 1 else f"{len(hours)} hours, {hours[0]} to {hours[-1]}"
                title = f"{metric}: results" if metric else f"{source}: events"
                write_page(
                    report_site(project),
                    publication,
                    page_name(source, metric),
                    result,
                    title,
                    told,
                    moment,
                )
