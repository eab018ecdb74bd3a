"""Finds declared expressions that Spark cannot resolve, and measures that do not merge, before anything runs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.aggregation import find_unsuited, named_expressions, plan_aggregation
from hourline_core.compute.check_classes import find_mistakes_of_classes
from hourline_core.compute.derived_inputs import find_unfit_deletion, find_unfit_inputs
from hourline_core.compute.record import with_record
from hourline_core.compute.repeatable import find_moving_times, refuse_moving_times, refuse_unrepeatable
from hourline_core.compute.resolve import (
    UnresolvedError,
    are_comparable,
    check_condition,
    empty_events,
    empty_looked_up,
    event_time_type,
    find_no_identity,
    type_of,
    types_of,
    with_derived,
    with_names,
)
from hourline_core.errors import DeclarationError, did_you_mean
from hourline_core.model import Metric, Project, Source
from hourline_core.model.branches import OTHERWISE
from hourline_core.model.scratch_columns import HOUR, RECORD, SCRATCH_PREFIX, visible_name
from hourline_core.model.yaml_files import KeyPath


def refuse_unresolved(spark: SparkSession, project: Project) -> None:
    """Raise DeclarationError with every mistake in the declared expressions, one per line: ``metrics/x.yaml:7: …``."""
    if mistakes := find_unresolved(spark, project):
        raise DeclarationError("\n".join(mistakes))


def find_unresolved(spark: SparkSession, project: Project) -> list[str]:
    """Every mistake in the declared expressions, one line each."""
    mistakes: list[str] = []
    for source in project.sources.values():
        names = [*source.fields, *source.explode]
        collector = _MistakeCollector(project, "source", source.name, source, names, mistakes)
        _check_source(spark, source, collector)
        if collector.failed:
            continue  # each of its metrics would repeat the mistake
        events = with_derived(empty_looked_up(spark, source), source)
        named = [name for name in events.columns if not name.startswith(SCRATCH_PREFIX)]
        for metric in project.metrics_of(source.name):
            collector = _MistakeCollector(project, "metric", metric.name, source, named, mistakes)
            _check_metric(events, source, metric, collector)
    return mistakes


class _MistakeCollector:
    """Collects the mistakes of one declaration, with file and line. ``names`` are those that its expressions may
    use.
    """

    def __init__(
        self, project: Project, kind: str, name: str, source: Source, names: list[str], mistakes: list[str]
    ) -> None:
        self.project, self.kind, self.name, self.names, self.mistakes = project, kind, name, names, mistakes
        self.exploded = set(source.fields) - set(source.event_fields)
        self.failed = False

    @contextmanager
    def collecting(self) -> Iterator[None]:
        try:
            yield
        except UnresolvedError as error:
            self.failed = True
            where = self.project.where_declared(self.kind, self.name, error.path)
            self.mistakes.append(f"{where}: {'.'.join(error.path)}: {error}{self._hint(str(error))}")

    def _hint(self, message: str) -> str:
        """What may be meant by the unknown name in ``message``."""
        unknown = re.search(r"there is no field '([^']+)'|field with name `([^`]+)`", message)
        name = unknown and (unknown[1] or unknown[2])
        if name in self.exploded:
            return f"; explode reads '{name}', so events do not keep it: put what you need of it into the elements"
        return did_you_mean(name, self.names) if name else ""


def _check_source(spark: SparkSession, source: Source, collector: _MistakeCollector) -> None:
    with collector.collecting():
        _check_explode(spark, source)
    if collector.failed:
        return  # each of its expressions would repeat the mistake
    with collector.collecting():
        events = with_record(empty_events(spark, source), source).select(RECORD, *source.event_fields)
        refuse_unrepeatable(spark, ("event_time",), source.event_time.expression, events.columns)
        event_time_type(spark, source)
        refuse_moving_times(events, {("event_time",): source.event_time.expression})
    for place, mistake in find_unfit_inputs(source):
        with collector.collecting():
            raise UnresolvedError(("join", *place), mistake)
    if unfit := find_unfit_deletion(source):
        with collector.collecting():
            raise UnresolvedError((source.derivation, "deleted"), unfit)
    if source.branch and source.branch != OTHERWISE:
        with collector.collecting():
            _check_branch(spark, source, source.branch)
    for name in source.lookups:
        with collector.collecting():
            _check_lookup(spark, source, name)
    with collector.collecting():
        events = _check_derived(spark, source)
        if source.id:
            with collector.collecting():
                refuse_unrepeatable(spark, ("id",), source.id, events.columns)
                if unsuited := find_no_identity(type_of(events, source.id, ("id",))):
                    raise UnresolvedError(("id",), f"values of type {unsuited} cannot be compared; cast it to a text")
                refuse_moving_times(events, {("id",): source.id})
        if source.where:
            with collector.collecting():
                refuse_unrepeatable(spark, ("where",), source.where, events.columns)
                check_condition(events, source.where)
                refuse_moving_times(events, {("where",): source.where})
        _check_row_conditions(events, source, collector)


def _check_row_conditions(events: DataFrame, source: Source, collector: _MistakeCollector) -> None:
    """Check the Spark SQL of the source's expectations. ``events`` have its derived fields."""
    for number, expectation in enumerate(source.expectations):
        if not (condition := expectation.spark_condition):
            continue
        path = ("expectations", str(number), expectation.type, "row_condition")
        hour = visible_name(HOUR, source.field_names)
        rows = events.withColumn(hour, F.lit(None).cast("string"))  # as the audit shows it
        with collector.collecting():
            refuse_unrepeatable(events.sparkSession, path, condition, rows.columns)
            check_condition(rows, condition, path)
            refuse_moving_times(rows, {path: condition})


def _check_explode(spark: SparkSession, source: Source) -> None:
    """Raise UnresolvedError unless the source has events, whose elements are the same each time."""
    for name, text in source.explode.items():
        refuse_unrepeatable(spark, ("explode", name), text, [*source.fields, RECORD])
    empty_events(spark, source)
    refuse_moving_times(_records(spark, source), {("explode", name): text for name, text in source.explode.items()})


def _check_lookup(spark: SparkSession, source: Source, name: str) -> None:
    """Raise UnresolvedError unless the keys of a lookup have the types of its columns, and are the same each time."""
    events, path, lookup = with_names(empty_events(spark, source), source), ("lookups", name), source.lookup_of(name)
    for text, column in zip(source.lookups[name].key, lookup.key, strict=True):
        refuse_unrepeatable(spark, path, text, events.columns)
        got, wanted = type_of(events, text, path), lookup.columns[column].spark_type
        if not are_comparable(got, wanted):
            raise UnresolvedError(
                path, f"'{text}' is of type {got}, and '{column}' of lookup '{lookup.name}' of type {wanted}; cast it"
            )
        refuse_moving_times(events, {path: text})


def _check_derived(spark: SparkSession, source: Source) -> DataFrame:
    """No events, with the source's derived fields. Raises UnresolvedError for the first mistake in one of them."""
    events = with_names(empty_looked_up(spark, source), source)
    for name, text in source.derived.items():
        path = ("derived", name)
        refuse_unrepeatable(spark, path, text, events.columns)
        type_of(events, text, path)
        refuse_moving_times(events, {path: text})
        events = events.withColumn(name, F.expr(text))
    return events


def _check_branch(spark: SparkSession, source: Source, condition: str) -> None:
    """Raise UnresolvedError unless all sources of the topic get the same from the condition of a branch."""
    path = ("branch",)
    records = _records(spark, source)
    refuse_unrepeatable(spark, path, condition, records.columns)
    if re.search(r"\brecord\s*\.\s*`?arrived\b", condition, re.IGNORECASE):
        raise UnresolvedError(
            path,
            "'record.arrived' differs between the sources of a topic, so that none or several might take a record; use "
            "record.timestamp",
        )
    check_condition(records, condition, path)
    refuse_moving_times(records, {path: condition})


def _records(spark: SparkSession, source: Source) -> DataFrame:
    """No records, with all fields, also those that explode reads, and ``record``."""
    whole = source.model_copy(update={"explode": {}})
    return with_record(empty_events(spark, whole), whole).select(RECORD, *whole.fields)


def _check_metric(events: DataFrame, source: Source, metric: Metric, collector: _MistakeCollector) -> None:
    """Check the metric as a whole. If that fails, check each expression alone, so that every mistake is reported.
    ``events`` are as ``with_derived`` gives them.
    """
    spark = events.sparkSession
    repeatable: dict[KeyPath, str] = {}
    for path, expression in named_expressions(metric).items():
        with collector.collecting():
            refuse_unrepeatable(spark, path, expression, events.columns)
            repeatable[path] = expression
    if collector.failed:  # Spark may fail in other ways at what does not repeat.
        _check_alone(events, repeatable, collector)
        return
    try:
        plan = plan_aggregation(spark, source, metric)
        for name, mistake in find_mistakes_of_classes(spark, plan):
            with collector.collecting():
                raise UnresolvedError(("measures", name), mistake)
        for moving in find_moving_times(events, repeatable):
            with collector.collecting():
                raise moving
    except UnresolvedError as error:
        _check_alone(events, repeatable, collector)
        for unsuited in () if collector.failed else find_unsuited(metric, types_of(events, repeatable)):
            with collector.collecting():
                raise unsuited from error
        if not collector.failed:
            with collector.collecting():
                raise UnresolvedError(error.path, str(error)) from error


def _check_alone(events: DataFrame, expressions: dict[KeyPath, str], collector: _MistakeCollector) -> None:
    for path, expression in expressions.items():
        with collector.collecting():
            type_of(events, expression, path)
            refuse_moving_times(events, {path: expression})
