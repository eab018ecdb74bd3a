"""Loads the tests of a project's metrics, ``tests/*.yaml``, and checks them against its declarations."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import get_args

from pydantic import ValidationError

from hourline_core.errors import DeclarationError, UsageError, did_you_mean
from hourline_core.model.base import describe, suggest
from hourline_core.model.given_records import GivenRecord
from hourline_core.model.hour_state import HourStateName
from hourline_core.model.hours import parse_hour
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.metric_test import MetricTest, find_mistake_of_time
from hourline_core.model.project import Project
from hourline_core.model.source import Source
from hourline_core.model.validation_errors import list_mistakes
from hourline_core.model.yaml_files import Document, KeyPath, Mistake, read_yaml

FOLDER = "tests"
"""Where the tests of a project are."""

_STATES: tuple[str, ...] = get_args(HourStateName)
_Refuse = Callable[..., None]
"""Adds a mistake: a sentence, and the path to its place."""


@dataclass(frozen=True, eq=False)
class LoadedTest:
    """A test that fits the declarations of its project."""

    name: str
    """That of its file, without the ending."""
    declared: MetricTest
    source: Source
    metrics: Mapping[str, Metric]
    """By name, the metrics whose rows it expects."""
    document: Document

    def place(self, *path: str) -> str:
        """``tests/NAME.yaml:7``, of the item at ``path``."""
        return self.document.place(path)


def load_tests(project: Project, environ: Mapping[str, str] = os.environ) -> list[LoadedTest]:
    """The tests of ``project``, by name. Raises DeclarationError with all mistakes in them, one per line, such as
    ``tests/late.yaml:7: source: got 'clicks', …``.
    """
    files = sorted(
        file
        for file in (project.root / FOLDER).glob("*")
        if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")
    )
    mistakes = [
        f"{FOLDER}/{second.name}:1: got the test '{second.stem}' again, allowed is each name once: see {first.name}"
        for first, second in combinations(files, 2)
        if first.stem == second.stem
    ]
    loaded: list[LoadedTest] = []
    for file in files:
        document = read_yaml(project.root, file, environ)
        if document.readable and not document.content:
            document.readable = False
            document.mistakes.append(Mistake(1, (), "the file is empty: write a test into it, or delete it"))
        test = _load(project, file.stem, document)
        if document.mistakes:
            mistakes += [_line_of(document, mistake) for mistake in sorted(document.mistakes, key=lambda one: one.line)]
        elif test is not None:
            loaded.append(test)
    if mistakes:
        raise DeclarationError("\n".join(mistakes))
    return loaded


def find_mistakes_of_tests(project: Project) -> list[str]:
    """The mistakes for which ``load_tests`` raises, one line each."""
    try:
        load_tests(project)
    except DeclarationError as error:
        return str(error).splitlines()
    return []


def _line_of(document: Document, mistake: Mistake) -> str:
    where = f"{' '.join('.'.join(mistake.path).split())}: " if mistake.path else ""
    return f"{document.file}:{mistake.line}: {where}{mistake.text}"


def _load(project: Project, name: str, document: Document) -> LoadedTest | None:
    """The test, or None. Mistakes are added to those of ``document``."""
    if not document.readable:
        return None
    try:
        declared = MetricTest.model_validate(document.content)
    except ValidationError as error:
        reported = {mistake.path for mistake in document.mistakes}
        document.mistakes += [
            mistake
            for mistake in list_mistakes(error, MetricTest, document)
            if document.nearest(mistake.path) not in reported
        ]
        return None
    source = _find_source(project, declared, document)
    if source is None:
        return None
    if source.is_derived:
        _add(document, _mistake_of_derived(project, source), "source" if declared.source else "expect")
        return None
    all_metrics = project.all_metrics
    metrics = {metric: all_metrics[metric] for metric in declared.expect if metric in all_metrics}
    refuse = partial(_add, document)
    _check_fields(declared, source, refuse)
    _check_lookups(declared, project.lookups, source, refuse)
    for metric in declared.expect:
        if metric not in all_metrics:
            refuse(f"there is no metric '{metric}'{did_you_mean(metric, all_metrics)}", "expect", metric)
        elif (over := project.source_of(all_metrics[metric])).is_derived:
            refuse(_mistake_of_derived(project, over), "expect", metric)
        elif over.name != source.name:
            refuse(
                f"got a metric over the source '{over.name}', allowed are metrics over '{source.name}', the source of "
                "the records; write a test for each source",
                "expect",
                metric,
            )
        else:
            _check_rows(all_metrics[metric], declared, refuse)
    return LoadedTest(name, declared, source, metrics, document)


def _add(document: Document, text: str, *path: str) -> None:
    document.mistakes.append(Mistake(document.lines.get(document.nearest(path), 1), path, text))


def _find_source(project: Project, declared: MetricTest, document: Document) -> Source | None:
    if declared.source is not None:
        if declared.source not in project.sources:
            hint = did_you_mean(declared.source, project.sources)
            _add(document, f"got '{declared.source}', which is no source of this project{hint}", "source")
        return project.sources.get(declared.source)
    for metric in declared.expect:
        if metric in project.all_metrics:
            return project.source_of(project.all_metrics[metric])
    for metric in declared.expect:
        _add(document, f"there is no metric '{metric}'{did_you_mean(metric, project.all_metrics)}", "expect", metric)
    return None


def _mistake_of_derived(project: Project, source: Source) -> str:
    of_topics = ", ".join(sorted(name for name, one in project.sources.items() if not one.is_derived))
    return (
        f"got metrics over '{source.name}', which is {source.origin_text} and has no records of its own, allowed are "
        f"those over a source of topics: {of_topics}"
    )


def _check_fields(declared: MetricTest, source: Source, refuse: _Refuse) -> None:
    """Refuse what is no field in the events that are given as mappings."""
    keys = [field.key or name for name, field in source.fields.items()]
    for place, item in enumerate(declared.given):
        for name in item.names if isinstance(item, GivenRecord) else ():
            if name not in keys:
                path = ("given", str(place), *(["value"] if item.is_wrapped else []), name)
                text = f"got '{name}', which is no field of the source '{source.name}', allowed are {', '.join(keys)}"
                refuse(f"{text}{suggest(name, keys)}", *path)


def _check_lookups(declared: MetricTest, lookups: Mapping[str, Lookup], source: Source, refuse: _Refuse) -> None:
    """Refuse the rows of a lookup that the source does not use, and columns that it has not."""
    used = {source.lookup_name(name) for name in source.lookups}
    for name in sorted(used - declared.lookups.keys()):
        if name in lookups and lookups[name].table_source:
            allowed = f"allowed is a test with them, `lookups: {{{name}: [{{…}}]}}`"
            refuse(f"got no rows of '{name}', whose table is a source without records here: {allowed}", "lookups")
    for name, rows in declared.lookups.items():
        if name not in used:
            hint = did_you_mean(name, used) if used else ": it uses none"
            refuse(f"got '{name}', which is no lookup of the source '{source.name}'{hint}", "lookups", name)
            continue
        columns = lookups[name].columns
        for place, row in enumerate(rows):
            for column in row:
                if column not in columns:
                    text = f"got '{column}', which is no column of '{name}', allowed are {', '.join(columns)}"
                    refuse(f"{text}{suggest(column, columns)}", "lookups", name, str(place), column)
            for column in lookups[name].key:
                if row.get(column) is None:
                    refuse(f"got a row without '{column}', allowed is one with the key", "lookups", name, str(place))


def _check_rows(metric: Metric, declared: MetricTest, refuse: _Refuse) -> None:
    times = metric.time_columns
    needed = [times[0], *metric.dimensions]
    allowed = [*times, *metric.dimensions, *metric.measures, "state"]
    seen: dict[tuple[str, ...], int] = {}
    for place, row in enumerate(declared.rows_of(metric.name)):
        at: KeyPath = ("expect", metric.name, str(place))
        for name, value in row.items():
            if name not in allowed:
                text = f"got '{name}', which is no column of '{metric.name}', allowed are {', '.join(allowed)}"
                refuse(f"{text}{suggest(name, allowed)}", *at, name)
            elif name in times and (mistake := _mistake_of_time(name, value)):
                refuse(mistake, *at, name)
            elif name == "state" and value not in _STATES:
                hint = suggest(str(value), _STATES)
                refuse(f"got {describe(value)}, allowed are {', '.join(_STATES)}{hint}", *at, name)
        for name in needed:
            if name not in row:
                what = "the time" if name == times[0] else "each dimension"
                refuse(f"got a row without '{name}', allowed is one with {what}: {', '.join(needed)}", *at)
        if all(name in row for name in needed):
            key = tuple(str(row[name]) for name in needed)
            first = seen.setdefault(key, place)
            if first != place:
                refuse(f"got the row of {', '.join(key)} again, allowed is each row once", *at)


def _mistake_of_time(name: str, value: object) -> str | None:
    if mistake := find_mistake_of_time(value):
        return mistake
    if name == "hour":
        try:
            parse_hour(str(value))
        except UsageError as error:
            return str(error)
    return None


def chosen_tests(tests: list[LoadedTest], names: list[str]) -> Iterator[LoadedTest]:
    """Those of ``tests`` that have one of ``names``; all of them without names. Raises UsageError with a near name."""
    known = {test.name: test for test in tests}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no test '{name}'{did_you_mean(name, known)}")
    yield from (test for test in tests if not names or test.name in names)
