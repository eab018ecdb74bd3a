"""Turns findings into rows of the quality table."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import Finding
from batch_layer.audit.run_audit import AuditedSource
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP
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
    checks = list({id(finding.check): finding.check for finding in findings}.values())
    hours = list(dict.fromkeys(finding.hour for finding in findings))
    place_of_check = {id(check): place for place, check in enumerate(checks)}
    place_of_hour = {hour: place for place, hour in enumerate(hours)}
    of_check = pa.array([place_of_check[id(finding.check)] for finding in findings], pa.int64())
    of_hour = pa.array([place_of_hour[finding.hour] for finding in findings], pa.int64())
    written = [_columns_of(check) for check in checks]
    columns: dict[str, list[Any] | pa.Array] = {
        "audited": [moment] * count,
        "source": [events.source.name] * count,
        "metric": [metric] * count,
        "declaration": [declarations.get(metric or "")] * count,
        "hour": pa.array([parse_hour(hour) for hour in hours], TIMESTAMP).take(of_hour),
        "cutoff": [events.cutoff] * count,
        **{name: [getattr(finding, name) for finding in findings] for name in _OF_FINDING},
        **{name: pa.array([check[name] for check in written], pa.string()).take(of_check) for name in _OF_CHECK},
    }
    absent = {name: [None] * count for name in QUALITY_SCHEMA.names if name not in columns}
    return pa.table(columns | absent, QUALITY_SCHEMA)


def _columns_of(check: Check) -> dict[str, str | None]:
    """The columns ``_OF_CHECK``."""
    parameters = json.dumps(check.parameters, ensure_ascii=False, default=str)
    values = (check.type, ", ".join(check.columns), parameters, check.origin, check.severity, check.when, check.unit)
    return dict(zip(_OF_CHECK, values, strict=True))
