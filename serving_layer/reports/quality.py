"""Reports the open problems, what is found of the sources, and the newest audit of each hour: `hourline quality`."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from hourline_core.ledger.problems import Identity, advice, declared_expectation
from hourline_core.ledger.report_pages import SHOWN, page_name, page_path, report_site
from hourline_core.model import Project
from hourline_core.model.hours import HOUR
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.findings import SourceFinding, closed_findings, describe_finding, find_findings
from serving_layer.reports.problems import QualityProblem, describe_problem, find_problems


class QualityFinding(Described):
    """The result of one expectation in the audit of one hour."""

    expectation: str
    """Its name in Great Expectations. `audit`: the audit itself failed. `accepted`: a person has overruled it."""
    about: str
    """The column, or columns, that it is on."""
    parameters: dict[str, Any]
    """Its parameters."""
    unit: str
    """`hour`, or `window`: it is about the windows that the hour is in."""
    origin: str
    """Where it comes from: `declaration`, `user`, `history` or `person`."""
    severity: str
    """`fail` or `warn`."""
    success: bool
    """Whether it was fulfilled. True also if it was not applied."""
    applied: bool
    """Whether its condition `when` held for the hour. If not, it was not evaluated."""
    found: str
    """What was found, in words."""
    observed: float | None
    """The number that was found. Null: there is no number."""
    lower: float | None
    """The lower bound that was expected. Null: there is none."""
    upper: float | None
    """The upper bound that was expected. Null: there is none."""
    unexpected: int | None
    """The number of rows that failed. Null: rows were not evaluated."""
    rows: list[dict[str, Any]]
    """Some of the rows that failed, with their keys."""
    owner: str | None
    """The person or team that is responsible for it, as it is declared now. Null: none is declared."""
    description: str | None
    """Why it is expected, as it is declared now. Null: nothing is declared."""
    link: str | None
    """The URL of a page that says more, as it is declared now. Null: none is declared."""


class AuditedHour(Described):
    """One audit of one hour of one metric."""

    hour: datetime
    """The hour (UTC)."""
    source: str
    """The name of the source."""
    metric: str
    """The name of the metric."""
    outcome: Literal["blocked", "accepted", "warned", "passed", "superseded"]
    """The outcome. `superseded`: it did not pass, and was replaced by a later audit or by another declaration of the
    metric.
    """
    publication: int
    """The number of the publication that it was made for."""
    audited: datetime
    """When it ran (UTC)."""
    cutoff: int
    """The sequence up to which the audited recompute counted events."""
    expectations: int
    """The number of expectations that were evaluated."""
    findings: list[QualityFinding]
    """The expectations that were not fulfilled. If one hour was asked for: all of them."""
    report: str | None
    """Its page. Null: it is no longer kept."""


class QualityReport(Described):
    """What audits found. The counts are of hours × metrics, by the outcome of their newest audit."""

    advice: str
    """What a person must do now, in a sentence or two."""
    findings: list[SourceFinding]
    """What is found of the sources and the speed layer now: those that fail first. It is left out if an hour, or what
    is blocked or has failed, is asked for.
    """
    closed: list[SourceFinding]
    """Those that a run of the batch layer has closed within the last day."""
    problems: list[QualityProblem]
    """The open problems: those that block first, then those of the newest hours."""
    audited: int
    """The number of audited hours × metrics."""
    blocked: int
    """The number that is blocked."""
    warned: int
    """The number that was published with a warning."""
    accepted: int
    """The number that a person has published although the audit did not pass."""
    passed: int
    """The number that fulfilled all expectations."""
    since: datetime | None
    """The first hour that was considered (UTC). Blocked hours are considered however old they are."""
    hours: list[AuditedHour]
    """The audits that did not simply pass, or those that were asked for."""
    site: str | None
    """The overview page. Null: there is none."""


def report_quality(
    connection: Connection,
    hour: datetime | None = None,
    metric: str | None = None,
    *,
    failed: bool = False,
    blocked: bool = False,
) -> QualityReport:
    """The newest audit of each hour, or of ``hour``, and of all metrics, or of ``metric``.

    ``hours`` are those that did not simply pass. With ``failed`` they are all audits that blocked an hour, also earlier
    ones; with ``blocked``, the hours that are blocked now; with ``hour``, all of it. ``problems`` are those of that
    hour and metric; with ``blocked``, those that block.
    """
    since = _first_shown(connection, metric) if hour is None else {}
    # Most audits have passed: they are counted, and not read.
    audits = list_audits(connection, hour, metric, since, passed=hour is not None)
    latest = [audit for audit in audits if audit.outcome != "superseded"]
    outcomes = Counter(audit.outcome for audit in latest)
    if hour is None:
        outcomes["passed"] += _count_passed(connection, metric, since)
    audited = outcomes.total()
    counts = {outcome: outcomes[outcome] for outcome in ("blocked", "warned", "accepted", "passed")}
    if blocked:
        shown = [audit for audit in latest if audit.outcome == "blocked"]
    elif failed:
        shown = [
            audit
            for audit in audits
            if audit.outcome == "accepted" or any(f.severity == "fail" and not f.success for f in audit.findings)
        ]
    else:
        shown = [audit for audit in latest if hour is not None or audit.outcome != "passed"]
    if hour is None:
        for audit in shown:
            audit.findings = [
                finding for finding in audit.findings if not finding.success or finding.origin == "person"
            ]
    index = report_site(connection.project) / "index.html"
    problems = find_problems(connection)
    concerned = [
        problem
        for problem in problems.open
        if metric in (None, *problem.metrics) and (hour is None or hour in problem.by_hour)
    ]
    of_source = None if metric is None else connection.project.metrics[metric].source
    whole = hour is None and not failed and not blocked
    findings = [one for one in find_findings(connection) if of_source in (None, one.source)] if whole else []
    closed = [one for one in closed_findings(connection) if of_source in (None, one.source)] if whole else []
    return QualityReport(
        advice=advice(replace(problems, open=concerned), audited, findings),
        findings=list(map(describe_finding, findings)),
        closed=list(map(describe_finding, closed)),
        problems=[
            describe_problem(connection.project, problem, connection.taken)
            for problem in concerned
            if problem.blocks or not blocked
        ],
        audited=audited,
        **counts,
        since=min(since.values(), default=None),
        hours=shown,
        site=str(index) if index.exists() else None,
    )


def list_audits(
    connection: Connection,
    hour: datetime | None,
    metric: str | None,
    since: Mapping[str, datetime] | None = None,
    passed: bool = True,
) -> list[AuditedHour]:
    """All kept audits, also earlier ones, of ``hour`` or of the hours from ``since`` on, which is given by source, and
    of all metrics or of ``metric``. Without ``passed``, those are left out that fulfilled all expectations and whose
    hour is not blocked.
    """
    # An expectation on the events of a source concerns each of its metrics.
    rows = connection.sql(f"""
        WITH {_audits_sql(connection, hour, metric, since or {})}
        SELECT a.hour, a.source, a.metric, a.publication, a.audited, a.cutoff, a.newest,
               f.metric AS of_metric, expectation, about, parameters, coalesce(unit, 'hour') AS unit, condition, origin,
               severity, success, coalesce(applied, true) AS applied, found, observed, lower, upper, unexpected, rows
        FROM audits a JOIN found f ON f.publication = a.publication AND f.hour = a.hour AND f.source = a.source
             AND coalesce(f.metric, a.metric) = a.metric
        WHERE {"true" if passed else "NOT a.simply"}
        ORDER BY a.hour, a.metric, a.publication, success, severity, f.metric NULLS FIRST, expectation, about
        """).to_arrow_table()
    audits: dict[tuple[str, datetime, int], AuditedHour] = {}
    for row in rows.to_pylist():
        key = (row["metric"], row["hour"], row["publication"])
        if key not in audits:
            audits[key] = _make_audit(connection.project, row)
        audit = audits[key]
        audit.expectations += row["applied"] and row["origin"] != "person"
        audit.findings.append(_make_finding(connection.project, row))
    blocked = connection.snapshot.blocked
    for (name, moment, _), audit in audits.items():
        if audit.outcome == "passed":
            audit.outcome = _outcome(audit, (name, moment) in blocked)
    return list(audits.values())


def _count_passed(connection: Connection, metric: str | None, since: Mapping[str, datetime]) -> int:
    """The number of hours × metrics from ``since`` on whose newest audit fulfilled all expectations, and that are not
    blocked.
    """
    audits = _audits_sql(connection, None, metric, since)
    ((count,),) = connection.sql(f"WITH {audits} SELECT count(*) FROM audits WHERE newest AND simply").fetchall()
    return int(count)


def _audits_sql(
    connection: Connection, hour: datetime | None, metric: str | None, since: Mapping[str, datetime]
) -> str:
    """Two common table expressions: ``found``, the findings that are asked for, and ``audits``: publication, source,
    metric, hour, audited, cutoff, newest (whether it is the newest one of its hour), simply (whether all expectations
    were fulfilled, and the hour is not blocked).
    """
    blocked = connection.snapshot.blocked
    chosen = ["true"]
    if hour is not None:
        chosen.append(f"hour = {literal(hour)}")
    elif since:
        shown = [f"(source = {literal(source)} AND hour >= {literal(first)})" for source, first in since.items()]
        if blocked:
            shown.append(f"hour IN ({', '.join(map(literal, sorted({moment for _, moment in blocked})))})")
        chosen.append(f"({' OR '.join(shown)})")
    cells = ", ".join(f"({literal(name)}, {literal(moment)})" for name, moment in sorted(blocked))
    is_blocked = f"(metric, hour) IN (VALUES {cells})" if blocked else "false"
    return f"""
        found AS (FROM quality WHERE {" AND ".join(chosen)}),
        told AS (
            SELECT DISTINCT publication, source, metric, hour FROM found WHERE success IS NOT TRUE OR origin = 'person'
        ),
        audits AS (
            SELECT *, publication = max(publication) OVER (PARTITION BY metric, hour) AS newest,
                   NOT EXISTS (FROM told t WHERE t.publication = a.publication AND t.source = a.source
                               AND t.hour = a.hour AND t.metric = a.metric)
                   AND NOT EXISTS (FROM told t WHERE t.publication = a.publication AND t.source = a.source
                                   AND t.hour = a.hour AND t.metric IS NULL)
                   AND NOT {is_blocked} AS simply
            FROM (SELECT DISTINCT publication, source, metric, hour, audited, cutoff FROM found
                  WHERE {f"metric = {literal(metric)}" if metric else "metric IS NOT NULL"}) a
        )"""


def _make_audit(project: Project, row: Mapping[str, Any]) -> AuditedHour:
    """The audit of a row, before its findings are added. Until then, the newest audit of an hour has passed."""
    page = report_site(project) / page_path(row["publication"], page_name(row["source"], row["metric"]))
    return AuditedHour(
        hour=row["hour"],
        source=row["source"],
        metric=row["metric"],
        outcome="passed" if row["newest"] else "superseded",
        publication=row["publication"],
        audited=row["audited"],
        cutoff=row["cutoff"],
        expectations=0,
        findings=[],
        report=str(page) if page.exists() else None,
    )


def _make_finding(project: Project, row: Mapping[str, Any]) -> QualityFinding:
    details = {name: row[name] for name in QualityFinding.model_fields if name in row}
    texts = {name: row[name] or "" for name in ("about", "parameters", "condition")}
    own = {name: row[name] for name in ("source", "expectation", "origin", "severity", "unit")}
    declared = declared_expectation(project, Identity(metric=row["of_metric"], **own, **texts))
    return QualityFinding(
        **{name: value for name, value in details.items() if name not in ("parameters", "rows")},
        owner=declared.owner if declared else None,
        description=declared.description if declared else None,
        link=declared.link if declared else None,
        parameters=json.loads(row["parameters"] or "{}"),
        rows=[json.loads(one) for one in row["rows"] or []],
    )


def _first_shown(connection: Connection, metric: str | None) -> dict[str, datetime]:
    """By source, or by that of ``metric``, the first hour that is shown if no hour is given (UTC)."""
    rows = connection.sql("SELECT source, max(hour) FROM quality GROUP BY source").fetchall()
    asked = None if metric is None else connection.project.metrics[metric].source
    return {source: newest - SHOWN + HOUR for source, newest in rows if asked in (None, source)}


def _outcome(audit: AuditedHour, blocked: bool) -> Literal["blocked", "accepted", "warned", "passed", "superseded"]:
    if blocked:
        return "blocked"
    if any(finding.origin == "person" for finding in audit.findings):
        return "accepted"
    if any(finding.severity == "fail" and not finding.success for finding in audit.findings):
        return "superseded"  # by another declaration of the metric
    return "passed" if all(finding.success for finding in audit.findings) else "warned"
