"""Evaluates what metrics need of each event, as columns: dimensions, conditions, and what the aggregates take.

So one pass of Spark over the events serves all metrics. Any engine can then group and fold the columns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.resolve import with_derived
from hourline_core.model import Source
from hourline_core.model.expressions import attempt, named_column
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    TOPIC,
    visible_name,
)

_MOST_CONDITIONS = 2
"""That of the source, and that of the metric."""


class _Expression(NamedTuple):
    source: int
    """The identity of the source whose derived fields it may name."""
    conditions: tuple[str, ...]
    """The columns of the conditions of the events that it is about."""
    text: str


@dataclass(frozen=True)
class ProjectedMetric:
    """A metric whose expressions are columns."""

    aggregation: AggregationPlan
    conditions: tuple[str, ...]
    """Boolean columns. An event counts if all of them are true."""
    keys: Mapping[str, str]
    """For each column that its tiles are grouped by besides the hour, the column of the events."""
    values: Mapping[str, tuple[str, ...]]
    """By measure, the columns that its aggregate takes."""


class Projection:
    """The columns that ``aggregations``, of one source, need of each event. Equal expressions share a column."""

    def __init__(self, aggregations: Iterable[AggregationPlan]) -> None:
        self._columns: dict[_Expression, str] = {}
        self._sources: dict[int, Source] = {}
        self.metrics = {aggregation.name: self._project(aggregation) for aggregation in aggregations}
        """By the name of the aggregation."""

    @property
    def expressions(self) -> dict[str, tuple[Source, str]]:
        """By column, the expression to evaluate, and the source whose derived fields it may name. All other columns
        that are needed are those of the events.
        """
        return {name: (self._sources[of.source], of.text) for of, name in self._columns.items()}

    def add_to(self, validated: DataFrame) -> DataFrame:
        """The validated events (EVENT_TIME, HOUR, OUTCOME, the fields) with the columns. Archived events, which have no
        OUTCOME, are all accepted.

        Each is null for events that were not accepted, and for those that the metric's conditions leave out.
        """
        accepted = F.col(OUTCOME) == "accepted" if OUTCOME in validated.columns else F.lit(True)
        for key, source in self._sources.items():
            for depth in range(_MOST_CONDITIONS + 1):  # a column comes after those of its conditions
                here = [
                    (of, name) for of, name in self._columns.items() if (of.source, len(of.conditions)) == (key, depth)
                ]
                columns = [F.when(_fulfils(accepted, of.conditions), F.expr(of.text)).alias(name) for of, name in here]
                validated = with_derived(validated, source).select(*validated.columns, *columns)
        return with_nullable_parts(validated, self._columns.values())

    def _project(self, aggregation: AggregationPlan) -> ProjectedMetric:
        source, metric = aggregation.source, aggregation.metric
        # A declaration that is being replaced brings its source's own derived fields and condition.
        self._sources[id(source)] = source
        conditions: tuple[str, ...] = ()
        for text in (source.where, metric.where):
            if text:
                conditions = (*conditions, self._column(source, attempt(text), conditions))
        return ProjectedMetric(
            aggregation,
            conditions,
            keys={name: self._column(source, text, conditions) for name, text in tile_keys(metric).items()},
            values={
                name: tuple(self._column(source, text, conditions) for text in texts)
                for name, texts in aggregation.values.items()
            },
        )

    def _column(self, source: Source, text: str, conditions: tuple[str, ...]) -> str:
        """The column of the expression ``text`` over the events that fulfil ``conditions``."""
        expression = _Expression(id(source), conditions, text)
        return _own_column(source, text) or self._columns.setdefault(
            expression, f"{SCRATCH_PREFIX}value_{len(self._columns)}"
        )


def _fulfils(accepted: Column, conditions: tuple[str, ...]) -> Column:
    """Whether an event is ``accepted`` and all ``conditions`` (boolean columns) are true."""
    return reduce(and_, map(F.col, conditions), accepted)


def _own_column(source: Source, expression: str) -> str | None:
    """The column of the events that ``expression`` merely names, in any case of letters. None: it names none."""
    named = named_column(expression)
    if named is None:
        return None
    own = {name.lower(): name for name in source.event_fields}
    for column in (EVENT_TIME, HOUR):
        own[visible_name(column, source.field_names)] = column
    own |= {column: column for column in (EVENT_TIME, HOUR, TOPIC, PARTITION, OFFSET, PLACE)}
    return own.get(named)
