"""Finds declared expressions that Spark cannot resolve, and measures that do not merge, before anything runs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from hourline_core.compute.aggregation import named_expressions, plan_aggregation
from hourline_core.compute.check_classes import find_mistakes_of_classes
from hourline_core.compute.record import with_record
from hourline_core.compute.resolve import (
    UnresolvedError,
    check_condition,
    empty_events,
    event_time_type,
    type_of,
    with_derived,
)
from hourline_core.errors import DeclarationError, did_you_mean
from hourline_core.model import Metric, Project, Source
from hourline_core.model.branches import OTHERWISE
from hourline_core.model.scratch_columns import RECORD, SCRATCH_PREFIX
from hourline_core.model.yaml_files import KeyPath

# The two layers have other events at hand.
_OTHER_ROWS = re.compile(r"\b(over(?=\s*\()|select(?=\s))", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
# A recompute would get other values than the micro-batch did.
_NOT_REPEATABLE = re.compile(
    r"\b(?:rand|randn|random|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_\w+)\s*\("
    r"|\b(?:now|unix_timestamp|curdate)\s*\(\s*\)"
    r"|\b(?:current_date|current_timestamp|current_time|localtimestamp)\b",
    re.IGNORECASE,
)


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
        events = with_derived(empty_events(spark, source), source)
        named = [name for name in events.columns if not name.startswith(SCRATCH_PREFIX)]
        for metric in project.metrics_of(source.name):
            collector = _MistakeCollector(project, "metric", metric.name, source, named, mistakes)
            _check_metric(spark, source, metric, collector)
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
        for name, text in source.explode.items():
            _refuse_unrepeatable(("explode", name), text)
        empty_events(spark, source)
    if collector.failed:
        return  # each of its expressions would repeat the mistake
    with collector.collecting():
        _refuse_unrepeatable(("event_time",), source.event_time.expression)
        event_time_type(spark, source)
    if source.branch and source.branch != OTHERWISE:
        with collector.collecting():
            _check_branch(spark, source, source.branch)
    with collector.collecting():
        for name, text in source.derived.items():
            _refuse_unrepeatable(("derived", name), text)
        events = with_derived(empty_events(spark, source), source)
        if source.id:
            with collector.collecting():
                _refuse_unrepeatable(("id",), source.id)
                type_of(events, source.id, ("id",))
        if source.where:
            with collector.collecting():
                _refuse_unrepeatable(("where",), source.where)
                check_condition(events, source.where)


def _check_branch(spark: SparkSession, source: Source, condition: str) -> None:
    """Raise UnresolvedError unless all sources of the topic get the same from the condition of a branch."""
    _refuse_unrepeatable(("branch",), condition)
    if re.search(r"\brecord\s*\.\s*`?arrived\b", condition, re.IGNORECASE):
        raise UnresolvedError(
            ("branch",),
            "'record.arrived' differs between the sources of a topic, so that none or several might take a record; use "
            "record.timestamp",
        )
    whole = source.model_copy(update={"explode": {}})  # A branch decides about records, which have all fields.
    check_condition(
        with_record(empty_events(spark, whole), whole).select(RECORD, *whole.fields), condition, ("branch",)
    )


def _check_metric(spark: SparkSession, source: Source, metric: Metric, collector: _MistakeCollector) -> None:
    """Check the metric as a whole. If that fails, check each expression alone, so that every mistake is reported."""
    repeatable: dict[KeyPath, str] = {}
    for path, expression in named_expressions(metric).items():
        with collector.collecting():
            _refuse_unrepeatable(path, expression)
            repeatable[path] = expression
    try:
        plan = plan_aggregation(spark, source, metric)
        for name, mistake in find_mistakes_of_classes(spark, plan):
            with collector.collecting():
                raise UnresolvedError(("measures", name), mistake)
    except UnresolvedError as error:
        events = with_derived(empty_events(spark, source), source)
        for path, expression in repeatable.items():
            with collector.collecting():
                type_of(events, expression, path)
        if not collector.failed:
            with collector.collecting():
                raise UnresolvedError(error.path, str(error)) from error


def _refuse_unrepeatable(path: KeyPath, expression: str) -> None:
    if match := _OTHER_ROWS.search(_QUOTED.sub("''", expression)):
        raise UnresolvedError(
            path, f"got {match[1].upper()}, allowed is an expression over one event, without windows and queries"
        )
    if match := _NOT_REPEATABLE.search(expression):
        raise UnresolvedError(
            path,
            f"'{match[0].rstrip('( ')}' gives another value each time, so a recompute would differ from the stream; "
            "use the event's own fields",
        )
