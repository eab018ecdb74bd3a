"""Audits the staged hours of all sources of a job. Each metric's hour passes or is blocked on its own. Whatever goes
wrong in an audit blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property, partial

from batch_layer.audit import facts
from batch_layer.audit.built_in_expectations import NO_LOOKUPS, Facts, compare_metric, compare_source, expect_of_rows
from batch_layer.audit.declared_expectations import Check, build_checks
from batch_layer.audit.event_expectations import validate_events
from batch_layer.audit.facts import ArchivedCounts, count_archived, count_decoded
from batch_layer.audit.failing_classes import validate_quarantine, validate_values
from batch_layer.audit.findings import Finding
from batch_layer.audit.fold_bounds import validate_folds
from batch_layer.audit.history_bounds import read_past_values
from batch_layer.audit.overflows import explain_overflows
from batch_layer.audit.validator import Validation, Validator
from batch_layer.audit.volume import Arrivals, compare_volume, read_arrivals
from batch_layer.audit.window_results import validate_windows
from batch_layer.hour_totals import LookedUpCounts, without_sketches
from batch_layer.stage import StagedMetric, StagedSource
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric, expectations_hash
from hourline_core.model.hours import hour_text, parse_hour
from hourline_core.model.identity import words_of
from hourline_core.runtime import failpoints
from hourline_core.sql.merge import without_lists
from hourline_core.storage.opening import open_table

_FEW_ROWS = 10_000
"""The maximum number of results of a metric that are kept until those of all metrics are evaluated."""
FAILED = Check("audit", {})
"""Stands for an audit that could not be done."""


@dataclass
class AuditedSource:
    """The findings of an audit of one source: of its events (under None), and of the results of its metrics."""

    staged: StagedSource
    findings: dict[str | None, list[Finding]] = field(default_factory=dict)
    broken: set[str | None] = field(default_factory=set)
    """The keys whose audit itself failed."""

    @property
    def events(self) -> int:
        """The number of events that count."""
        counted = {hour: count for totals in self.staged.totals.values() for hour, count in totals.counted.items()}
        return sum(counted.values())

    def blocked(self, aggregation: AggregationPlan) -> dict[datetime, str]:
        """The hours of a metric that must not be published, each with the hash of the expectations that it did not
        pass ("": the audit failed).
        """
        metric, source = aggregation.metric, aggregation.source
        used = "" if {None, metric.name} & self.broken else expectations_hash(source, metric)
        return {
            parse_hour(finding.hour): used
            for of in (None, metric.name)
            for finding in self.findings.get(of, [])
            if finding.blocks
        }


def audit(staged: Sequence[StagedSource]) -> list[AuditedSource]:
    """Audit the staged tiles of all metrics of each source, and the events that they were computed from."""
    validator = cache(Validator)
    audits = [_Audit(one, validator) for one in staged]
    for one in audits:
        one.compare()
    facts = [of for one in audits for of_key in [*one.compared.values(), one.rows.values()] for of in of_key]
    with suppress(Exception):  # Then each metric is evaluated on its own, and what breaks there blocks its hours alone.
        found = zip(map(id, facts), validator().evaluate_all_facts(facts), strict=True)
        together = {of: validation for of, validation in found if validation is not None}
        for one in audits:
            one.evaluated = together
    return [one.run() for one in audits]


class _Audit:
    def __init__(self, staged: StagedSource, validator: Callable[[], Validator]) -> None:
        self._staged, self._make_validator = staged, validator
        self.compared: dict[str | None, list[Facts]] = {}
        """The facts about the events (under None), and about each metric."""
        self.rows: dict[str, Facts] = {}
        """The results of each metric that has few of them, with the expectations on each row."""
        self.evaluated: Mapping[int, Validation] = {}
        """By the identity of facts, what was found of them already."""
        self._source, self._events = staged.events.source, staged.events.archived
        self._connection, self._snapshot = staged.events.job.database, staged.events.job.snapshot
        self._hours = sorted({hour for metric in staged.metrics for hour in metric.hours})
        self._audited = AuditedSource(staged)
        self._archived: ArchivedCounts | None = None
        """What is in the archive. None: it is not counted yet, or could not be."""

    @cached_property
    def _arrivals(self) -> Arrivals:
        """What progress knows of the audited hours, and of the past days that they are compared with."""
        days = max(metric.aggregation.metric.history.days for metric in self._staged.metrics)
        first, last = self._hours[0], self._hours[-1]
        return read_arrivals(self._connection, self._source, self._staged.events.cutoff, first, last, days)

    @property
    def _looked_up(self) -> Mapping[str, LookedUpCounts]:
        """What the events met in lookups. All metrics were folded from the same events."""
        return next((totals.looked_up for totals in self._staged.totals.values()), NO_LOOKUPS)

    @property
    def _validator(self) -> Validator:
        """That of the job, which is created on first use."""
        return self._make_validator()

    def compare(self) -> None:
        """Compute the facts."""
        failpoints.visit("before audit")
        self._guard(None, self._hours, self._compare_events)
        for metric in self._staged.metrics:
            self._guard(metric.aggregation.metric.name, metric.hours, partial(self._compare_results, metric))

    def run(self) -> AuditedSource:
        """Evaluate the facts that are not evaluated yet, and all other expectations."""
        if None not in self._audited.broken:
            self._guard(None, self._hours, self._audit_events)
        for metric in self._staged.metrics:
            name = metric.aggregation.metric.name
            if name not in self._audited.broken:
                self._guard(name, metric.hours, partial(self._audit_results, metric))
        failpoints.visit("after audit")
        return self._audited

    def _guard(self, of: str | None, hours: list[datetime], audit: Callable[[], None]) -> None:
        """Run a part of the audit. If it raises, all of its hours fail, and no others."""
        try:
            audit()
        except Exception as error:
            words = f"the audit itself failed: {type(error).__name__}: {' '.join(str(error).split())}"[:500]
            self._audited.findings[of] = [Finding(hour_text(hour), FAILED, False, words) for hour in hours]
            self._audited.broken.add(of)

    def _compare_events(self) -> None:
        """Count the archive, and compare the counts."""
        source, hours = self._source, self._hours
        archived = self._count_archived()
        arrivals = self._arrivals
        self.compared[None] = [
            compare_source(source, archived, arrivals.arrived, hours, self._looked_up),
            compare_volume(source, arrivals, archived.duplicates, hours),
        ]
        self._archived = archived

    def _audit_events(self) -> None:
        validations = [self._evaluate(one) for one in self.compared[None]]
        if self._source.expectations:
            validations.append(validate_events(self._validator, self._source, self._events, self._hours))
        self._keep(None, validations)

    def _evaluate(self, compared: Facts) -> Validation:
        return self.evaluated.get(id(compared)) or self._validator.evaluate_facts(compared)

    def _count_archived(self) -> ArchivedCounts:
        cutoff, job = self._staged.events.cutoff, self._staged.events.job
        changed = job.changed.get(self._source.name)
        if changed is None:
            return count_archived(self._connection, self._source, self._hours, cutoff)
        decodings, layout = changed.decodings, Layout.of(job.project)
        table = open_table(layout.decoded(self._source, decodings.now.hash), layout.storage_options)
        rejected = open_table(layout.rejected(self._source), layout.storage_options)
        decoded = count_decoded(self._connection, self._source, table, rejected, decodings, cutoff)
        as_declared = [hash for hash in decodings.standing if hash not in decodings.lost]
        return count_archived(self._connection, self._source, self._hours, cutoff, decoded, as_declared)

    def _compare_results(self, item: StagedMetric) -> None:
        """Compare the results of one metric with its totals and the counts of the archive."""
        if self._archived is None:
            raise RuntimeError("the events could not be counted")
        aggregation, connection = item.aggregation, self._connection
        metric = aggregation.metric
        totals = self._staged.totals[metric.name]
        tables = self._tables_of(item)
        # Lists are not compared here.
        stored = without_lists(metric.model_copy(update={"measures": metric.stored_measures}))
        of_tiles = facts.compute_totals(connection, stored, item.rows)
        of_events = facts.compute_totals(connection, without_sketches(metric), totals.rows)
        earlier = read_past_values(connection, tables, metric.history, item.hours[0], item.hours[-1])
        rows = facts.count_rows_and_groups(connection, aggregation, item.rows)
        compared = compare_metric(
            aggregation,
            totals,
            self._archived,
            of_tiles,
            of_events,
            rows,
            item.hours,
            {**earlier, **of_tiles},
            self._arrivals.events,
            item.rows.schema,
            self._count_forgotten(metric),
        )
        self.compared[metric.name] = [compared]
        if item.rows.num_rows <= _FEW_ROWS:
            frame, _ = facts.read_result_frame(connection, metric, item.rows)
            self.rows[metric.name] = Facts(frame, expect_of_rows(aggregation, item.hours))

    def _count_forgotten(self, metric: Metric) -> Mapping[str, Mapping[datetime, int]]:
        """By lookup that ``metric`` names, the numbers of events whose version is no longer kept."""
        source, words = self._source, words_of(self._source, metric)
        job = self._staged.events.job
        named = {source.lookup_name(use) for use in source.lookups if use.casefold() in words}
        pinned = job.pin_lookups(source) if named and self._staged.events.fold else {}
        found = {
            name: facts.count_in_spans(self._connection, source, self._hours, one.forgotten)
            for name, one in pinned.items()
            if name in named and one.forgotten
        }
        if source.name in job.changed:  # Events may have moved to any of the hours since.
            return {name: dict.fromkeys(self._hours, sum(counts.values()) or 1) for name, counts in found.items()}
        return found

    def _audit_results(self, item: StagedMetric) -> None:
        """Audit the results of one metric, which were compared before."""
        aggregation, connection = item.aggregation, self._connection
        metric, tables = aggregation.metric, self._tables_of(item)
        totals = self._staged.totals[metric.name]
        validations = [
            *map(self._evaluate, self.compared[metric.name]),
            *self._evaluate_rows(item),
            validate_quarantine(self._validator, metric, item.hours, totals),
            validate_values(self._validator, connection, metric, item.hours, item.rows),
            validate_folds(self._validator, connection, metric, item.hours, item.rows),
            validate_windows(self._validator, connection, tables, metric, item.hours, item.rows),
        ]
        self._keep(metric.name, validations)
        self._audited.findings[metric.name] = explain_overflows(metric, item.rows, self._audited.findings[metric.name])

    def _evaluate_rows(self, item: StagedMetric) -> Iterator[Validation]:
        """Evaluate the expectations on the results of one metric that follow from declarations, and those declared."""
        aggregation, metric = item.aggregation, item.aggregation.metric
        known = self.rows.get(metric.name)
        passed = known and self.evaluated.get(id(known))
        declared = [one for one in metric.expectations if one.about == "hour"]
        if passed:
            yield passed
        if declared or not passed:
            frame, types = facts.read_result_frame(self._connection, metric, item.rows)
            checks = [*([] if passed else expect_of_rows(aggregation, item.hours)), *build_checks(declared, types)]
            hours = [hour_text(hour) for hour in item.hours]
            yield self._validator.evaluate_results(frame, checks, hours, ["hour", *metric.dimensions])

    def _tables_of(self, item: StagedMetric) -> MetricTables:
        return next(tables for tables in self._snapshot.metrics if tables.name == item.aggregation.name)

    def _keep(self, of: str | None, validations: list[Validation]) -> None:
        self._audited.findings[of] = [finding for validation in validations for finding in validation.findings]
