"""Great Expectations' engine for Spark, which computes an aggregate for all hours when the first hour asks for it.

By itself it starts Spark jobs for each hour, and each takes a tenth of a second however few events the hour has.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from great_expectations.core import IDDict
from great_expectations.execution_engine.execution_engine import MetricComputationConfiguration
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.util import convert_to_json_serializable
from great_expectations.validator.metric_configuration import MetricConfiguration
from pyspark.sql import DataFrame

_ALL_HOURS = "all hours"
"""The id of the batch with the events of all hours."""

_ROWS = ".unexpected_values"
"""The end of the names of metrics that collect failing rows."""

_Aggregate = tuple[Any, str]
"""The id of a metric, and its expression. The id alone is not enough: the expression may depend on another value of the
hour, such as its mean. The expression alone is not enough: the literal ``v`` is written like the column ``v``.
"""


@dataclass
class _Shared:
    """What the hours of one set of events have in common."""

    column: str
    """The column of the hour, as text."""
    hour: str = ""
    """The hour that is evaluated now."""
    known: dict[_Aggregate, dict[str, Any]] = field(default_factory=dict)
    """By aggregate, its value in each hour. An hour without rows has none."""


class HourlyEngine(SparkDFExecutionEngine):
    """Within ``sharing``, the batch of one hour gets its aggregates from one job over all hours. It collects no failing
    rows.
    """

    _shared: _Shared | None = None

    @contextmanager
    def sharing(self, events: DataFrame, column: str) -> Iterator[_Shared]:
        """Share the aggregates over ``events`` among their hours. The caller sets ``hour`` of what this gives."""
        self.load_batch_data(_ALL_HOURS, events)
        self._shared = _Shared(column)
        try:
            yield self._shared
        finally:
            self._shared = None

    def resolve_metrics(
        self,
        metrics_to_resolve: Iterable[MetricConfiguration],
        metrics: dict[Any, Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> dict[Any, Any]:
        wanted = list(metrics_to_resolve)
        if self._shared is None:
            return super().resolve_metrics(wanted, metrics, runtime_configuration)
        rows = [metric for metric in wanted if metric.metric_name.endswith(_ROWS)]
        others = [metric for metric in wanted if metric not in rows]
        resolved = super().resolve_metrics(others, metrics, runtime_configuration) if others else {}
        return {**resolved, **{metric.id: [] for metric in rows}}

    def resolve_metric_bundle(self, metric_fn_bundle: Iterable[MetricComputationConfiguration]) -> dict[Any, Any]:
        bundle = list(metric_fn_bundle)
        if self._shared is None:
            return super().resolve_metric_bundle(bundle)
        self._compute(self._shared, bundle)
        resolved, empty = {}, []
        for one in bundle:
            of_hours = self._shared.known[_aggregate(one)]
            if self._shared.hour in of_hours:
                resolved[one.metric_configuration.id] = of_hours[self._shared.hour]
            else:
                empty.append(one)
        return {**resolved, **super().resolve_metric_bundle(empty)}

    def _compute(self, shared: _Shared, bundle: list[MetricComputationConfiguration]) -> None:
        """Compute the aggregates of ``bundle`` that are not known yet, in one job for each of its domains."""
        of_domain: dict[Any, list[MetricComputationConfiguration]] = {}
        for one in bundle:
            if _aggregate(one) not in shared.known:
                of_domain.setdefault(IDDict(one.compute_domain_kwargs or {}).to_id(), []).append(one)
        for wanted in of_domain.values():
            events = self.get_domain_records({**(wanted[0].compute_domain_kwargs or {}), "batch_id": _ALL_HOURS})
            aggregates: list[Any] = [one.metric_fn for one in wanted]
            rows = events.groupBy(shared.column).agg(*aggregates).collect()
            for place, one in enumerate(wanted, start=1):
                shared.known[_aggregate(one)] = {row[0]: convert_to_json_serializable(row[place]) for row in rows}


def _aggregate(one: MetricComputationConfiguration) -> _Aggregate:
    return one.metric_configuration.id, str(one.metric_fn)
