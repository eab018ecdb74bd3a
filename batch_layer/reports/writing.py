"""Writes the pages of an audit, before its hours are published."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.audit.run_audit import AuditedSource
from batch_layer.job import Job
from batch_layer.reports.audit_page import write_page
from batch_layer.reports.site import writing
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, report_site


def write_pages(
    job: Job, publication: int, audited: Sequence[AuditedSource], findings: pa.Table, moment: datetime
) -> None:
    """Write the pages of an audit with its ``findings`` (QUALITY_SCHEMA, of this ``publication``), dated ``moment``
    (UTC). Raises HourlineError when they cannot be written; then nothing is published.
    """
    with writing(job.project, "nothing was published"):
        for one in audited:
            source = one.staged.events.source.name
            for metric in one.findings:
                chosen = (pc.field("source") == source) & (
                    pc.field("metric").is_null() if metric is None else pc.field("metric") == metric
                )
                rows = findings.filter(chosen)
                if rows.num_rows:
                    past = _past(job, source, metric, rows)
                    write_page(report_site(job.project), job.project, publication, source, metric, rows, past, moment)


def _past(job: Job, source: str, metric: str | None, rows: pa.Table) -> pa.Table:
    """What earlier audits found of the same in the four weeks before the last hour of ``rows``."""
    hours = pc.min_max(rows["hour"]).as_py()
    names = ", ".join(name if name != "rows" else "NULL::VARCHAR[] AS rows" for name in QUALITY_SCHEMA.names)
    return (
        job.database.execute(
            f"SELECT {names} FROM hourline.quality "
            "WHERE source = ? AND metric IS NOT DISTINCT FROM ? AND hour > ? AND hour <= ?",
            [source, metric, hours["max"] - SHOWN, hours["max"]],
        )
        .to_arrow_table()
        .cast(QUALITY_SCHEMA)
    )
