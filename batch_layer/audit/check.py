"""What is wrong with the declared expectations, found before anything is audited."""

import pandas as pd

from batch_layer.audit.suites import Check, UnsuitableExpectationError, declared_checks
from batch_layer.audit.validation import Validator
from hourline_core.errors import did_you_mean
from hourline_core.model import Metric, Project, Source


def unsuitable(project: Project) -> list[str]:
    """What is wrong with the declared expectations, one line each: ``metrics/x.yaml:12: …``."""
    declared: list[tuple[str, Source | Metric, list[str]]] = []
    for source in project.sources.values():
        names = dict.fromkeys([*source.fields, *source.derived, "event_time", "hour"])
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
    """Evaluate it over no rows at all: bounds the wrong way round, or a pattern that is none, show."""
    if check.by_row:
        found = validator.results(pd.DataFrame(columns=columns, dtype=object), [check], ["no hour"], ["hour"])
        for finding in found.findings:
            if not finding.success:
                raise UnsuitableExpectationError(f"{check.type}: {finding.found}")
