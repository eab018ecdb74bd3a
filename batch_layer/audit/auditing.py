"""The audit of one source's staged hours: every metric × hour passes, or is blocked on its own. Whatever goes wrong in
it blocks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial

import duckdb
import pyarrow as pa
from great_expectations.core import ExpectationSuiteValidationResult
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.audit import facts
from batch_layer.audit.built_in import Facts, metric_facts, row_checks, source_facts
from batch_layer.audit.facts import EventFacts, event_facts
from batch_layer.audit.findings import Finding
from batch_layer.audit.history import published_values
from batch_layer.audit.suites import Check, declared_checks
from batch_layer.audit.validation import Validation, Validator, page
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Source, expectations_hash
from hourline_core.model.hours import hour_text, parse_hour
from hourline_core.runtime import failpoints

FAILED = Check("audit", {})
"""Stands for an audit that could not be done."""

_EVENT_KEYS = ["hour", "topic", "partition", "offset"]


@dataclass(frozen=True)
class StagedHours:
    """What is to be audited: the rows of one metric as they lie in its staged table, the hours they are of, and the
    table's columns.
    """

    aggregation: AggregationPlan
    rows: pa.Table
    hours: list[datetime]
    columns: pa.Schema
    tables: MetricTables | None
    """What has been published of this declaration; None: nothing of it."""


@dataclass
class Audited:
    """What the audit found of one source: of its events (under None) and of its metrics' results."""

    source: Source
    findings: dict[str | None, list[Finding]] = field(default_factory=dict)
    pages: dict[str | None, ExpectationSuiteValidationResult] = field(default_factory=dict)
    """The same for Data Docs."""
    broken: set[str | None] = field(default_factory=set)
    """Where the audit itself failed."""
    events: int = 0
    """How many count; none, where they could not be counted."""

    def blocked(self, aggregation: AggregationPlan) -> dict[datetime, str]:
        """The hours of a metric that must not be published, each with the hash of the expectations it did not pass ("":
        the audit failed).
        """
        metric = aggregation.metric
        used = (
            ""
            if {None, metric.name} & self.broken
            else expectations_hash(self.source.expectations, metric.expectations, metric.history)
        )
        return {
            parse_hour(finding.hour): used
            for of in (None, metric.name)
            for finding in self.findings.get(of, [])
            if finding.blocks
        }


class Audit:
    """Audits the staged hours of one source. ``connection`` has the snapshot attached, and the sketch functions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, source: Source) -> None:
        self._connection, self._source = connection, source
        self._audited = Audited(source)
        self._hours: list[datetime] = []

    @cached_property
    def _validator(self) -> Validator:
        return Validator()

    def of(self, marked: DataFrame, staged: Sequence[StagedHours]) -> Audited:
        """Audit ``staged``; ``marked`` are the archived events of all their hours (see ``ArchivedEvents.marked``)."""
        failpoints.reached("before audit")
        self._hours = sorted({hour for item in staged for hour in item.hours})
        found: list[EventFacts] = []
        self._guarded(None, self._hours, lambda: found.append(self._events(marked, staged)))
        for item in staged:
            self._guarded(item.aggregation.metric.name, item.hours, partial(self._results, found, item))
        failpoints.reached("after audit")
        return self._audited

    def _guarded(self, of: str | None, hours: list[datetime], audit: Callable[[], None]) -> None:
        """Run a part of the audit; whatever it raises is a failure of all its hours, and none of the others."""
        try:
            audit()
        except Exception as error:
            words = f"the audit itself failed: {type(error).__name__}: {' '.join(str(error).split())}"[:500]
            self._audited.findings[of] = [Finding(hour_text(hour), FAILED, False, words) for hour in hours]
            self._audited.broken.add(of)

    def _events(self, marked: DataFrame, staged: Sequence[StagedHours]) -> EventFacts:
        """Count the events, and audit them."""
        source = self._source
        checks = declared_checks(source.expectations, dict(marked.dtypes))
        columns = sorted({name for check in checks for name in check.columns} & {*marked.columns} - {"hour"})
        events = event_facts(marked, source, [item.aggregation for item in staged], columns)
        self._audited.events = sum(events.count(hour, "counted") for hour in events.rows)
        view = f"hourline.source_hours_{source.name}"
        in_progress = dict(self._connection.execute(f"SELECT hour, events FROM {view}").fetchall())
        validations = [_of_facts(self._validator, source_facts(source, events, in_progress, self._hours))]
        if checks:
            counting = marked.where("_counts").withColumn("hour", F.date_format("hour", "yyyy-MM-dd'T'HH:mm'Z'"))
            known = {
                hour_text(hour): {
                    "": events.count(hour, "counted"),
                    **{name: events.count(hour, f"known of {name}") for name in columns},
                }
                for hour in self._hours
            }
            validations.append(self._validator.events(counting, checks, known, _EVENT_KEYS))
        self._keep(None, validations)
        return events

    def _results(self, of_source: Sequence[EventFacts], item: StagedHours) -> None:
        """Audit the results of one metric."""
        if not of_source:
            raise RuntimeError("the events could not be counted")
        events, aggregation, connection = of_source[0], item.aggregation, self._connection
        metric = aggregation.metric
        frame, types = facts.result_frame(connection, aggregation, item.rows)
        of_tiles = facts.totals(connection, metric, item.rows)
        of_events = facts.totals(connection, facts.without_sketches(metric), events.states(aggregation))
        earlier = (
            {}
            if item.tables is None
            else published_values(connection, item.tables, metric.history, item.hours[0], item.hours[-1])
        )
        rows = facts.rows_and_groups(connection, aggregation, item.rows)
        hours = [hour_text(hour) for hour in item.hours]
        compared = metric_facts(
            aggregation, events, of_tiles, of_events, rows, item.hours, {**earlier, **of_tiles}, item.columns
        )
        checks = [*row_checks(aggregation, item.hours), *declared_checks(metric.expectations, types)]
        validations = [
            _of_facts(self._validator, compared),
            self._validator.results(frame, checks, hours, ["hour", *metric.dimensions]),
        ]
        self._keep(metric.name, validations)

    def _keep(self, of: str | None, validations: list[Validation]) -> None:
        self._audited.findings[of] = [finding for validation in validations for finding in validation.findings]
        self._audited.pages[of] = page(validations, of or self._source.name)


def _of_facts(validator: Validator, found: Facts) -> Validation:
    return validator.results(found.frame, found.checks, list(dict.fromkeys(found.frame["hour"])), ["hour"])
