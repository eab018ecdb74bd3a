"""Finds mistakes in the declared expectations before anything is audited."""

from dataclasses import replace

import pandas as pd

from batch_layer.audit.declared_expectations import Check, UnsuitableExpectationError, build_checks
from batch_layer.audit.validator import Validator
from hourline_core.errors import did_you_mean
from hourline_core.model import Metric, Project, Source
from hourline_core.model.expressions import named_column
from hourline_core.model.metric import WINDOW_COLUMNS

_NUMBERS = (
    *("count", "sum", "mean", "variance", "stddev", "var_pop", "stddev_pop"),
    *("quantile", "distinct", "ratio", "rate"),
)
"""The kinds of measures whose values are numbers, whatever they are of."""


def find_mistakes(project: Project) -> list[str]:
    """The mistakes in the declared expectations, one line each: ``metrics/x.yaml:12: …``."""
    validator = Validator()
    declared: list[Source | Metric] = [*project.sources.values(), *project.metrics.values()]
    return [mistake for one in declared for mistake in find_mistakes_in(project, one, validator)]


def find_mistakes_in(project: Project, declaration: Source | Metric, validator: Validator) -> list[str]:
    """The mistakes in the expectations of one declaration of ``project``, one line each."""
    if isinstance(declaration, Source):
        kind = "source"
        names = ("event_time", "hour", *declaration.event_fields, *declaration.derived)
    else:
        kind, names = "metric", ("hour", *declaration.dimensions, *declaration.measures)
    of_sessions = isinstance(declaration, Metric) and declaration.session is not None
    mistakes = []
    types, of_events = _types_of(project, declaration), kind == "source"
    checks = build_checks(declaration.expectations, types, of_sessions=of_sessions, of_events=of_events)
    for number, check in enumerate(checks):
        columns = list(dict.fromkeys(names if check.unit == "hour" else (*WINDOW_COLUMNS, *names[1:])))
        try:
            check.build({})
            _refuse_unknown_columns(check, columns)
            _refuse_broken(validator, check, columns)
        except UnsuitableExpectationError as error:
            path = ("expectations", str(number), check.type, *error.path)
            where = project.where_declared(kind, declaration.name, path)
            mistakes.append(f"{where}: expectations.{number}: {error}")
    return mistakes


def _types_of(project: Project, declaration: Source | Metric) -> dict[str, str]:
    """The types of those columns whose declaration tells them: fields, and what is made of a field alone."""
    source = declaration if isinstance(declaration, Source) else project.sources[declaration.source]
    fields = {name.lower(): field.spark_type for name, field in source.fields.items()}
    if declaration is source:
        return {"hour": "string", **{name: field.spark_type for name, field in source.fields.items()}}
    assert isinstance(declaration, Metric)
    types = {"hour": "string"}
    for name, text in declaration.dimensions.items():
        types[name] = fields.get(named_column(text) or "", "")
    for name, measure in declaration.measures.items():
        if measure.kind in ("min", "max", "first", "last"):
            types[name] = fields.get(named_column(measure.argument or "") or "", "")
        elif measure.kind in _NUMBERS:
            types[name] = "double"
    return {name: of for name, of in types.items() if of}


def _refuse_unknown_columns(check: Check, columns: list[str]) -> None:
    for name in check.columns:
        if name not in columns:
            raise UnsuitableExpectationError(f"there is no column '{name}'{did_you_mean(name, columns)}")


def _refuse_broken(validator: Validator, check: Check, columns: list[str]) -> None:
    """Evaluate the expectation over no rows. Reversed bounds and broken patterns show then."""
    if check.by_row:
        always, by = replace(check, when=None), "hour" if check.unit == "hour" else WINDOW_COLUMNS[0]
        if check.of_events:  # Their condition is Spark's, and these rows are pandas'.
            conditions = ("row_condition", "condition_parser")
            plain = {name: value for name, value in check.parameters.items() if name not in conditions}
            always = replace(always, parameters=plain, spark_condition=None)
        validation = validator.evaluate_results(
            pd.DataFrame(columns=columns, dtype=object), [always], ["no hour"], [by]
        )
        for finding in validation.findings:
            if not finding.success:
                raise UnsuitableExpectationError(f"{check.type}: {finding.found}")
