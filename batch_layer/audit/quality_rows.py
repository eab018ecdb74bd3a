"""Turns findings into rows of the quality table."""

import json
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa

from batch_layer.audit.run_audit import AuditedSource
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.model.hours import parse_hour


def make_quality_rows(audited: Iterable[AuditedSource], moment: datetime) -> pa.Table:
    """One row per finding (QUALITY_SCHEMA, without the number of the publication). ``moment`` (UTC) dates the audit."""
    rows = []
    for source in audited:
        events = source.staged.events
        declarations = {item.aggregation.metric.name: item.aggregation.declaration for item in source.staged.metrics}
        for metric, findings in source.findings.items():
            rows += [
                {
                    "audited": moment,
                    "source": events.source.name,
                    "metric": metric,
                    "declaration": declarations.get(metric or ""),
                    "hour": parse_hour(finding.hour),
                    "cutoff": events.cutoff,
                    "expectation": finding.check.type,
                    "about": ", ".join(finding.check.columns),
                    "parameters": json.dumps(finding.check.parameters, ensure_ascii=False, default=str),
                    "origin": finding.check.origin,
                    "severity": finding.check.severity,
                    "success": finding.success,
                    "applied": finding.applied,
                    "observed": finding.observed,
                    "lower": finding.lower,
                    "upper": finding.upper,
                    "unexpected": finding.unexpected,
                    "found": finding.found,
                    "rows": finding.rows,
                    "condition": finding.check.when,
                    "unit": finding.check.unit,
                }
                for finding in findings
            ]
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA)
