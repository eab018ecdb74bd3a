"""Turns findings into rows of the quality table."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import Finding
from batch_layer.audit.run_audit import AuditedSource
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.model.hours import parse_hour

_OF_FINDING = ("success", "applied", "observed", "lower", "upper", "unexpected", "found", "rows")
_OF_CHECK = ("expectation", "about", "parameters", "origin", "severity", "condition", "unit")


def make_quality_rows(audited: Iterable[AuditedSource], moment: datetime) -> pa.Table:
    """One row per finding (QUALITY_SCHEMA, without the number of the publication). ``moment`` (UTC) dates the audit."""
    parts = [
        _rows(source, metric, findings, moment) for source in audited for metric, findings in source.findings.items()
    ]
    return pa.concat_tables(parts) if parts else QUALITY_SCHEMA.empty_table()


def _rows(source: AuditedSource, metric: str | None, findings: list[Finding], moment: datetime) -> pa.Table:
    events, count = source.staged.events, len(findings)
    declarations = {item.aggregation.metric.name: item.aggregation.declaration for item in source.staged.metrics}
    # A job has hundreds of thousands of findings of a few checks and hours, which are written out once.
    hours = {text: parse_hour(text) for text in {finding.hour for finding in findings}}
    checks = {id(finding.check): _columns_of(finding.check) for finding in findings}
    of_checks = [checks[id(finding.check)] for finding in findings]
    columns: dict[str, list[Any]] = {
        "audited": [moment] * count,
        "source": [events.source.name] * count,
        "metric": [metric] * count,
        "declaration": [declarations.get(metric or "")] * count,
        "hour": [hours[finding.hour] for finding in findings],
        "cutoff": [events.cutoff] * count,
        **{name: [getattr(finding, name) for finding in findings] for name in _OF_FINDING},
        **{name: [check[name] for check in of_checks] for name in _OF_CHECK},
    }
    absent = {name: [None] * count for name in QUALITY_SCHEMA.names if name not in columns}
    return pa.table(columns | absent, QUALITY_SCHEMA)


def _columns_of(check: Check) -> dict[str, str | None]:
    """The columns ``_OF_CHECK``."""
    parameters = json.dumps(check.parameters, ensure_ascii=False, default=str)
    values = (check.type, ", ".join(check.columns), parameters, check.origin, check.severity, check.when, check.unit)
    return dict(zip(_OF_CHECK, values, strict=True))
