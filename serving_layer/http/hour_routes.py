"""Routes for hours and what is known about them: states, status, audits, late events, drift and rejected records."""

import base64
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.model.hour_state import HourStateName
from hourline_core.model.hours import parse_hour
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.access import admin_only
from serving_layer.http.answering import Answering, Body, answering_of
from serving_layer.http.formats import MEDIA_TYPES, fetch, json_bytes, rows_json
from serving_layer.http.metric_query import parse_hours
from serving_layer.http.report_pages import with_addresses
from serving_layer.reports.cell import NotFoundError, find_tables
from serving_layer.reports.drift import DriftReport, report_drift
from serving_layer.reports.findings import SourceFinding, closed_findings, describe_finding, find_findings
from serving_layer.reports.late import LateHour, list_late_hours
from serving_layer.reports.quality import QualityReport, report_quality
from serving_layer.reports.status import ProjectStatus, report_status
from serving_layer.sql_errors import without_tables

routes = APIRouter(prefix="/api/v1", tags=["hours"])

TheAnswering = Annotated[Answering, Depends(answering_of)]


class HourOf(Described):
    """One hour of one source or metric."""

    kind: Literal["source", "metric"]
    """Whether it is of a source or of a metric."""
    name: str
    """The name of the source or metric."""
    hour: datetime
    """The hour (UTC)."""
    state: HourStateName | None
    """The state; of a source, the weakest state of its metrics. Null: the source has no metric."""
    events: int
    """The number of accepted events of the source in the hour."""
    late: int
    """The number of them that arrived after the hour had closed."""
    closed: bool
    """Whether the hour has closed."""


class HoursAnswer(Described):
    """Hours with their states."""

    token: str
    """The token of the snapshot."""
    hours: list[HourOf]
    """The hours, by hour, kind and name."""


class StatusAnswer(ProjectStatus):
    """The status of the project. A `report` is the address of a page."""

    token: str
    """The token of the snapshot."""


class FindingsAnswer(Described):
    """Findings about sources and the speed layer."""

    findings: list[SourceFinding]
    """Those that are open: the ones that fail first."""
    closed: list[SourceFinding]
    """Those that a run of the batch layer has closed within the last day."""


class LateAnswer(Described):
    """Hours with late events."""

    token: str
    """The token of the snapshot."""
    hours: list[LateHour]
    """The hours, by source and hour."""


class Rejected(Described):
    """A record that did not pass validation."""

    sequence: int
    """The number of the micro-batch that read it."""
    topic: str
    """The topic, or the imported file."""
    partition: int
    """The partition."""
    offset: int
    """The offset, or the number of the row in the file."""
    reason: str
    """Why it was rejected."""
    value: str | None
    """The bytes of its value, in base64."""


class RejectedAnswer(Described):
    """Rejected records."""

    token: str
    """The token of the snapshot."""
    source: str
    """The name of the source."""
    rejected: list[Rejected]
    """The records, the newest first."""


class HoursParameters(Described):
    """Which hours."""

    start: str | None = Field(None, alias="from", description="The first hour (UTC), such as 2013-01-05T14.")
    to: str | None = Field(None, description="The hour after the last one (UTC).")
    metric: str | None = Field(None, description="Only this metric.")
    kind: Literal["source", "metric"] | None = Field(None, description="Only hours of sources, or of metrics.")


class StatusParameters(Described):
    """How much of it."""

    last: int = Field(24, ge=0, le=10_000, description="The number of hours of each source.")


class HourParameters(Described):
    """Which hour."""

    hour: str | None = Field(None, description="Only this hour (UTC), such as 2013-01-05T14.")

    @property
    def moment(self) -> datetime | None:
        """Raises UsageError."""
        return parse_hour(self.hour) if self.hour else None


class DriftParameters(HourParameters):
    """Which hour of which metric."""

    metric: str | None = Field(None, description="Only this metric.")


class QualityParameters(DriftParameters):
    """Which audits."""

    failed: bool = Field(
        False, description="Show all audits that blocked an hour, including hours that were repaired or accepted since."
    )
    blocked: bool = Field(False, description="Show only what is blocked now.")


class RejectedParameters(Described):
    """How many."""

    limit: int = Field(100, ge=1, le=1_000, description="The maximum number of records.")


@routes.get("/hours", response_model=HoursAnswer)
async def hours(request: Request, answering: TheAnswering, parameters: Annotated[HoursParameters, Query()]) -> Response:
    """The states of hours, of all sources and metrics or of one metric."""
    chosen = parse_hours(parameters.start, parameters.to)

    def work(connection: Connection) -> bytes:
        condition, values = "true", list[object]()
        if parameters.metric is not None:
            condition, values = "kind = 'metric' AND name = ?", [find_tables(connection, parameters.metric).metric.name]
        if parameters.kind is not None:
            condition, values = f"{condition} AND kind = ?", [*values, parameters.kind]
        query = f"FROM hours WHERE hour >= ? AND hour < ? AND {condition} ORDER BY hour, kind, name"
        rows = fetch(connection.database, query, [chosen.start, chosen.end, *values], answering.settings.bytes)
        return b'{"token":' + json_bytes(connection.token) + b',"hours":' + rows_json(connection.database, rows) + b"}"

    return await answering.report(request, work)


@routes.get("/status", response_model=StatusAnswer)
async def status(
    request: Request, answering: TheAnswering, parameters: Annotated[StatusParameters, Query()]
) -> Response:
    """The progress of each source, the states of its last hours, and the running recomputes."""
    # Before its turn: while it waits for Kafka, it takes no place from other answers.
    offsets = await answering.kafka_offsets_within_limit()

    def work(connection: Connection) -> dict[str, Any]:
        report = with_addresses(connection.project, report_status(connection, parameters.last, offsets).model_dump())
        return {**report, "token": connection.token}

    return await answering.report(request, work)


@routes.get("/quality", response_model=QualityReport)
async def quality(
    request: Request, answering: TheAnswering, parameters: Annotated[QualityParameters, Query()]
) -> Response:
    """What the audits of the last four weeks found. A `report` is the address of a page."""
    if parameters.failed and parameters.blocked:
        raise UsageError(
            "give failed or blocked, not both: blocked shows what is blocked now, failed shows what was ever blocked"
        )
    moment = parameters.moment

    def work(connection: Connection) -> Any:
        _check(connection, parameters.metric)
        report = report_quality(
            connection, moment, parameters.metric, failed=parameters.failed, blocked=parameters.blocked
        )
        return with_addresses(connection.project, report.model_dump())

    return await answering.report(request, work)


@routes.get("/findings", response_model=FindingsAnswer)
async def findings(request: Request, answering: TheAnswering) -> Response:
    """What is found of the sources and the speed layer now, and what was closed within the last day."""

    def work(connection: Connection) -> FindingsAnswer:
        return FindingsAnswer(
            findings=list(map(describe_finding, find_findings(connection))),
            closed=list(map(describe_finding, closed_findings(connection))),
        )

    return await answering.report(request, work)


@routes.get("/late", response_model=LateAnswer)
async def late(request: Request, answering: TheAnswering, parameters: Annotated[HourParameters, Query()]) -> Response:
    """The hours that got events after they had closed, how late these were, and what they changed."""
    moment = parameters.moment

    def work(connection: Connection) -> Body:
        return _json(LateAnswer(token=connection.token, hours=list_late_hours(connection, moment)))

    return await answering.answer(request, work)


@routes.get("/drift", response_model=DriftReport)
async def drift(request: Request, answering: TheAnswering, parameters: Annotated[DriftParameters, Query()]) -> Response:
    """By how much recomputed hours changed, split by cause."""
    moment = parameters.moment

    def work(connection: Connection) -> Body:
        _check(connection, parameters.metric)
        return _json(report_drift(connection, moment, parameters.metric))

    return await answering.answer(request, work)


@routes.get("/rejected/{source}", response_model=RejectedAnswer, dependencies=[Depends(admin_only)])
async def rejected(
    request: Request, answering: TheAnswering, source: str, parameters: Annotated[RejectedParameters, Query()]
) -> Response:
    """The rejected records of a source with their bytes. For admins only, since the bytes may hold anything."""

    def work(connection: Connection) -> Body:
        if source not in connection.project.sources:
            raise NotFoundError(f"there is no source '{source}'{did_you_mean(source, connection.project.sources)}")
        if source not in connection.snapshot.progress:
            raise NotFoundError(without_tables("source", source))
        columns = 'sequence, topic, partition, "offset", reason, value'
        query = f'SELECT {columns} FROM rejected_{source} ORDER BY sequence DESC, partition DESC, "offset" DESC LIMIT ?'
        rows = fetch(connection.database, query, [parameters.limit], answering.settings.bytes).to_pylist()
        found = [
            {**row, "value": None if row["value"] is None else base64.b64encode(row["value"]).decode()} for row in rows
        ]
        return _json(RejectedAnswer(token=connection.token, source=source, rejected=[Rejected(**row) for row in found]))

    return await answering.answer(request, work)


def _json(report: Described) -> Body:
    return Body(json_bytes(report), MEDIA_TYPES["json"])


def _check(connection: Connection, metric: str | None) -> None:
    """Raises NotFoundError."""
    if metric is not None:
        if metric in connection.project.rollups:
            connection.project.find_metric(metric)
        find_tables(connection, metric)
