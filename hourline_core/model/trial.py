"""Expectations in a file of their own, to be tried on past hours before they are declared."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self, cast

import pydantic
from pydantic import ValidationError, ValidationInfo, model_validator

from hourline_core.errors import DeclarationError, UsageError
from hourline_core.model.base import Declaration
from hourline_core.model.expectation import ExpectationForm, History, HistoryForm
from hourline_core.model.metric import Metric
from hourline_core.model.project import Project
from hourline_core.model.source import Source
from hourline_core.model.validation_errors import list_mistakes
from hourline_core.model.volume import Volume
from hourline_core.model.yaml_files import read_yaml


class _Rules(Declaration):
    """What such a file may hold for either. Validation gets the source or metric as its context."""

    expectations: list[ExpectationForm] = pydantic.Field(default=[])

    @model_validator(mode="after")
    def _check_expectations(self, info: ValidationInfo) -> Self:
        cast("Source | Metric", info.context).refuse_unfit(self.expectations)
        return self


class _OfSource(_Rules):
    """What such a file may hold for a source."""

    volume: Volume = Volume()


class _OfMetric(_Rules):
    """What such a file may hold for a metric."""

    history: HistoryForm = History()


def with_expectations(
    project: Project, declaration: Source | Metric, file: Path, environ: Mapping[str, str] = os.environ
) -> Project:
    """``project`` with the expectations of ``file`` in the place of those that ``declaration`` has, and likewise with
    its ``history`` (of a metric) or ``volume`` (of a source), if the file has them. Mistakes in them are at their line
    of the file.

    Raises UsageError if there is no such file, DeclarationError with all mistakes in it, one per line.
    """
    if not file.exists() or file.is_dir():
        raise UsageError(f"there is no file {file}: give one with a list of `expectations`, as a declaration has it")
    document = read_yaml(file.parent, file, environ)
    document.file = str(file)
    model: type[_OfSource | _OfMetric] = _OfSource if isinstance(declaration, Source) else _OfMetric
    mistakes = list(document.mistakes)
    if not mistakes:
        try:
            rules = model.model_validate(document.content, context=declaration)
        except ValidationError as error:
            mistakes += list_mistakes(error, model, document)
    if mistakes:
        places = {mistake: f"{'.'.join(mistake.path)}: " if mistake.path else "" for mistake in mistakes}
        raise DeclarationError("\n".join(f"{file}:{one.line}: {place}{one.text}" for one, place in places.items()))
    changed = {name: getattr(rules, name) for name in rules.model_fields_set}
    if not changed:
        raise DeclarationError(f"{file}:1: got nothing, allowed are the keys {', '.join(model.model_fields)}")
    kind = "source" if isinstance(declaration, Source) else "metric"
    documents = {**project.documents, (kind, declaration.name): document}
    if isinstance(declaration, Source):
        sources = {**project.sources, declaration.name: declaration.model_copy(update=changed)}
        return replace(project, sources=sources, documents=documents)
    metrics = {**project.metrics, declaration.name: declaration.model_copy(update=changed)}
    return replace(project, metrics=metrics, documents=documents)
