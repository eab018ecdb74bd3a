"""Runs the tests of a project's metrics: each as it is given, then at each single cut and in seeded splits."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic

import pyarrow as pa
from pyspark.sql import SparkSession

from hourline.metric_tests.as_given import Outcome, run_as_given
from hourline.metric_tests.cases import Case, cases_of
from hourline.metric_tests.expected_rows import Difference, ExpectedRows
from hourline.metric_tests.given_lookups import refuse_unfit_rows, with_given_lookups
from hourline.metric_tests.prepared_source import PreparedSource
from hourline_core.compute.check import refuse_unresolved
from hourline_core.errors import DeclarationError
from hourline_core.model import Project, Source
from hourline_core.model.given_records import RECOMPUTES
from hourline_core.model.hours import wall_clock
from hourline_core.model.loaded_tests import LoadedTest
from hourline_core.model.record_format import RecordFormat
from hourline_core.runtime.spark import spark_session, stop_spark

_OF_SMALL_TABLES = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""All tables are small, so planning takes nearly all of the time."""
_AS_GIVEN = "as given"


@dataclass(frozen=True)
class Failure:
    """Why a test fails: the first difference, or a mistake in the test."""

    case: str
    """How the records were read and recomputed."""
    difference: Difference | None
    """None: no row differs."""
    told: str | None
    """What else is wrong, in a sentence: with the number of rejected records, or with values of the test, with file and
    line.
    """

    @property
    def sentence(self) -> str:
        """What differs, and in which case."""
        what = self.told if self.difference is None else f"the rows of '{self.difference.metric}' differ"
        return f"{self.case}: {what}"

    @property
    def lines(self) -> list[str]:
        """All of it as lines of text."""
        lines = [self.sentence]
        if self.difference:
            lines += [", ".join(map(str, row)) for row in (self.difference.columns, *self.difference.rows)]
            lines += [self.told] if self.told else []
        return lines


@dataclass(frozen=True)
class OutcomeOfTest:
    """What became of a test."""

    test: LoadedTest
    ways: int
    """The number of ways in which its records were read, with the one as given."""
    seconds: float
    failure: Failure | None


def run_tests(project: Project, tests: Sequence[LoadedTest]) -> Iterator[OutcomeOfTest]:
    """Run ``tests``, those of each source together. They have tables of their own: nothing changes in the workspace of
    ``project``.

    Raises DeclarationError when a test gives rows that a lookup cannot have, and when Spark does not resolve a
    declaration.
    """
    refuse_unfit_rows(project, tests)
    if any(item in RECOMPUTES for test in tests for item in test.declared.given):
        # Great Expectations takes seconds to import. Spark starts meanwhile.
        Thread(target=import_module, args=("batch_layer.audit.run_audit",), daemon=True).start()
    with TemporaryDirectory(prefix="hourline-test-") as folder:
        spark = spark_session(_within(project, Path(folder), tests), "test", _OF_SMALL_TABLES, brief=True)
        try:
            Thread(target=_start_worker, args=(spark,), daemon=True).start()
            refuse_unresolved(spark, project)
            now = wall_clock()
            with ThreadPoolExecutor(max_workers=1) as pool:
                for number, alike in enumerate(_group(tests)):
                    own = Path(folder) / str(number)
                    given = with_given_lookups(project, alike[0], own / "given")
                    arrived = {test: test.declared.arrived or now for test in alike}
                    yield from _run_tests_of_source(spark, given, own, arrived, pool)
        finally:
            stop_spark(spark)


def _group(tests: Sequence[LoadedTest]) -> list[list[LoadedTest]]:
    """The tests of each source for which its lookups have the same rows."""
    groups: dict[tuple[str, str], list[LoadedTest]] = {}
    for test in tests:
        groups.setdefault((test.source.name, repr(test.declared.lookups)), []).append(test)
    return list(groups.values())


def _start_worker(spark: SparkSession) -> None:
    """Start a Python worker of Spark, which imports libraries for a second."""
    with suppress(Exception):  # Whoever needs it will see the same.
        spark.range(1).mapInArrow(_import_validator, "id long").collect()


def _import_validator(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import_module("hourline_core.validation.validator")
    return batches


def _run_tests_of_source(
    spark: SparkSession, project: Project, folder: Path, tests: Mapping[LoadedTest, datetime], pool: Executor
) -> Iterator[OutcomeOfTest]:
    """Run ``tests`` of one source, each with the time at which its records arrive (UTC). What Spark does for one test
    runs in ``pool``, while this thread reads the cases of another.
    """
    (name,) = {test.source.name for test in tests}
    own = _within(project, folder / "of_source", list(tests))
    prepared = PreparedSource(spark, own, own.sources[name], tests)
    as_given = []
    for number, (test, arrived) in enumerate(tests.items()):
        # A file may have a name that is not fit for tables.
        own = _within(project, folder / "as_given" / str(number), [test])
        as_given.append(pool.submit(run_as_given, spark, own, test, arrived))
    try:
        for test, running in zip(tests, as_given, strict=True):
            began = monotonic()
            found = {case: prepared.rows(test, case) for case in cases_of(len(test.declared.records))}
            failure = _find_failure(test, running.result(), found)
            yield OutcomeOfTest(test, 1 + len(found), monotonic() - began, failure)
    finally:
        for running in as_given:
            running.cancel()


def _find_failure(test: LoadedTest, outcome: Outcome, found: Mapping[Case, Mapping[str, pa.Table]]) -> Failure | None:
    try:
        expected = {
            name: ExpectedRows(test, metric, outcome.rows[name].schema) for name, metric in test.metrics.items()
        }
    except DeclarationError as error:
        return Failure("before it is compared", None, "; ".join(str(error).splitlines()))
    return _failure_as_given(test, expected, outcome) or _failure_in_cases(expected, found)


def _failure_in_cases(
    expected: Mapping[str, ExpectedRows], found: Mapping[Case, Mapping[str, pa.Table]]
) -> Failure | None:
    for case, rows in found.items():
        if difference := _difference(expected, rows, states=False):
            return Failure(case.in_words, difference, None)
    return None


def _failure_as_given(test: LoadedTest, expected: Mapping[str, ExpectedRows], outcome: Outcome) -> Failure | None:
    difference = _difference(expected, outcome.rows, states=True)
    if difference is None and outcome.rejected == test.declared.rejected:
        return None
    told = None
    if outcome.rejected != test.declared.rejected:
        reasons = f" ({'; '.join(outcome.reasons)})" if outcome.reasons else ""
        told = f"{outcome.rejected} record(s) are rejected{reasons}, expected are {test.declared.rejected}"
    return Failure(_AS_GIVEN, difference, told)


def _difference(
    expected: Mapping[str, ExpectedRows], found: Mapping[str, pa.Table], *, states: bool
) -> Difference | None:
    """The first difference."""
    differences = (of_metric.difference(found[name], states=states) for name, of_metric in expected.items())
    return next(filter(None, differences), None)


def _as_json(source: Source) -> Source:
    return source.model_copy(update={"format": RecordFormat()}) if source.format.is_binary else source


def _within(project: Project, workspace: Path, tests: Sequence[LoadedTest]) -> Project:
    """``project`` with another workspace on this machine, and only the metrics that ``tests`` need.

    Records of binary formats are JSON here: a test has their members in YAML, whatever bytes a schema makes of them.
    """
    named = {metric for test in tests for metric in test.metrics}
    bases = {project.base_of(name) for name in named}
    settings = project.settings
    spark = settings.spark.model_copy(update={"master": "local[1]"})
    own: dict[str, object] = {"workspace": workspace, "tables": None, "storage_options": {}, "spark": spark}
    return replace(
        project,
        settings=settings.model_copy(update=own),
        sources={name: _as_json(source) for name, source in project.sources.items()},
        metrics={name: metric for name, metric in project.metrics.items() if name in bases},
        rollups={name: rollup for name, rollup in project.rollups.items() if name in named},
    )
