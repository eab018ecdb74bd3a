"""Finds mistakes in the declared expectations before anything is audited."""

from dataclasses import replace

import pandas as pd

from batch_layer.audit.declared_expectations import Check, UnsuitableExpectationError, declared_checks
from batch_layer.audit.validator import Validator
from hourline_core.errors import did_you_mean
from hourline_core.model import Metric, Project, Source


def find_mistakes(project: Project) -> list[str]:
    """The mistakes in the declared expectations, one line each: ``metrics/x.yaml:12: …``."""
    declared: list[tuple[str, Source | Metric, list[str]]] = []
    for source in project.sources.values():
        names = dict.fromkeys([*source.event_fields, *source.derived, "event_time", "hour"])
        declared.append(("source", source, list(names)))
    for metric in project.metrics.values():
        declared.append(("metric", metric, ["hour", *metric.dimensions, *metric.measures]))
    mistakes = []
    validator = Validator()
    for kind, declaration, columns in declared:
        for number, check in enumerate(declared_checks(declaration.expectations)):
            try:
                check.built({})
                _refuse_unknown_columns(check, columns)
                _refuse_broken(validator, check, columns)
            except UnsuitableExpectationError as error:
                where = project.where_declared(
                    kind, declaration.name, ("expectations", str(number), check.type, *error.path)
                )
                mistakes.append(f"{where}: expectations.{number}: {error}")
    return mistakes


def _refuse_unknown_columns(check: Check, columns: list[str]) -> None:
    for name in check.columns:
        if name not in columns:
            raise UnsuitableExpectationError(f"there is no column '{name}'{did_you_mean(name, columns)}")


def _refuse_broken(validator: Validator, check: Check, columns: list[str]) -> None:
    """Evaluate the expectation over no rows. Reversed bounds and broken patterns show then."""
    if check.by_row:
        always = replace(check, when=None)
        validation = validator.results(pd.DataFrame(columns=columns, dtype=object), [always], ["no hour"], ["hour"])
        for finding in validation.findings:
            if not finding.success:
                raise UnsuitableExpectationError(f"{check.type}: {finding.found}")
