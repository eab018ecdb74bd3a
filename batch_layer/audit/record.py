"""What an audit has found, as rows of the quality table."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import pyarrow as pa

from batch_layer.audit.auditing import Audited
from batch_layer.publish import Staged
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.model.hours import parse_hour


def quality_rows(audited: Iterable[tuple[Audited, Sequence[Staged]]], moment: datetime) -> pa.Table:
    """One row per finding (QUALITY_SCHEMA, without the number of the publication). ``moment`` (UTC) dates the audit."""
    rows = []
    for found, staged in audited:
        declarations = {item.aggregation.metric.name: item.aggregation.declaration for item in staged}
        for metric, findings in found.findings.items():
            rows += [
                {
                    "audited": moment,
                    "source": found.source.name,
                    "metric": metric,
                    "declaration": declarations.get(metric or ""),
                    "hour": parse_hour(finding.hour),
                    "cutoff": staged[0].cutoff,
                    "expectation": finding.check.type,
                    "about": ", ".join(finding.check.columns),
                    "parameters": json.dumps(finding.check.parameters, ensure_ascii=False, default=str),
                    "origin": finding.check.origin,
                    "severity": finding.check.severity,
                    "success": finding.success,
                    "observed": finding.observed,
                    "lower": finding.lower,
                    "upper": finding.upper,
                    "unexpected": finding.unexpected,
                    "found": finding.found,
                    "rows": finding.rows,
                }
                for finding in findings
            ]
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA)
