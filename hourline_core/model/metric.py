"""A metric: dimensions and measures over one source, declared once for both layers."""

from typing import Annotated, Any, Self

import pydantic
from pydantic import BeforeValidator, model_validator

from hourline_core.model.base import Declaration, refuse, shown
from hourline_core.model.expectation import ExpectationForm, History, HistoryForm
from hourline_core.model.expressions import Expression
from hourline_core.model.measure import MeasureForm
from hourline_core.model.names import ColumnName, MetricName, SourceName, is_column_name, refuse_same_names

_LIST_FORM = "allowed are field names in lower case and `name: expression`"


def _dimensions(value: Any) -> Any:
    """A list of field names and ``{name: expression}`` mappings stands for one mapping."""
    if value is None or isinstance(value, str):
        raise refuse(f"got {shown(value)}, allowed is a list or a mapping, such as [{value or 'origin'}]")
    if not isinstance(value, list | tuple):
        return value
    dimensions: dict[str, object] = {}
    for index, item in enumerate(value):
        if isinstance(item, str) and not is_column_name(item):
            raise refuse(f"got {shown(item)}, {_LIST_FORM}: give it a name, as in `a_name: {item}`", str(index))
        if not isinstance(item, str | dict):
            raise refuse(f"got {shown(item)}, {_LIST_FORM}", str(index))
        for name, expression in ({item: item} if isinstance(item, str) else item).items():
            if name in dimensions:
                raise refuse(f"got {shown(name)} again, allowed is each dimension once", str(index))
            dimensions[name] = expression
    return dimensions


class Metric(Declaration):
    """One metric, as declared in ``metrics/NAME.yaml``."""

    name: MetricName
    """The metric's name; the file's name without its ending, if left out."""

    source: SourceName
    """The name of the source it is computed from."""

    description: str | None = None
    """What it says, for people."""

    dimensions: Annotated[
        dict[ColumnName, Expression],
        BeforeValidator(_dimensions, json_schema_input_type=list[str | dict[ColumnName, str]] | dict[ColumnName, str]),
    ] = pydantic.Field(default={})
    """What the events are grouped by, beside the hour: a list of fields and `name: expression`, or one mapping."""

    measures: Annotated[dict[ColumnName, MeasureForm], pydantic.Field(min_length=1)]
    """What is computed of each group: `name: count`, `name: sum(delay)`; also min, max, mean and distinct."""

    where: Expression | None = None
    """Which events count for this metric (a Spark SQL condition over fields and derived fields)."""

    expectations: list[ExpectationForm] = pydantic.Field(default=[])
    """What must hold of an hour's results before they are published: a list of `expect_…: {parameter: value}`, by Great
    Expectations.
    """

    history: HistoryForm = History()
    """How results are compared with the same hour of past days: fail, warn or off; or a mapping of severity, days,
    learning, width.
    """

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        refuse_same_names(dimensions=self.dimensions, measures=self.measures)
        return self
