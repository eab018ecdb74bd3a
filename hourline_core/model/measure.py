"""A measure: a mergeable aggregate, written ``count``, ``sum(delay)`` or ``sum(delay) where delay > 15``."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationInfo, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expressions import Expression, outer_commas
from hourline_core.model.measure_text import EXAMPLES, LAST_ARGUMENTS, PATTERN, MeasureKind, split_measure
from hourline_core.model.names import is_column_name
from hourline_core.model.user_measure import UserMeasure


def _rank(number: float) -> float:
    if not 0 <= number <= 1:
        raise refuse(f"got '{number}', allowed is a number from 0 to 1, such as 0.99")
    return number


def _limit(number: int) -> int:
    if not 1 <= number <= 100:
        raise refuse(f"got '{number}', allowed is a number from 1 to 100, such as 10")
    return number


_RANGES = {"quantile": "0 to 1", "limit": "1 to 100"}
"""By name of a second argument, the numbers that it allows."""
_OPERANDS = {
    "ratio": (2, "the names of two measures of the metric; each of them may have a condition"),
    "rate": (1, "the name of one measure of the metric, which may have a condition"),
}
"""By kind that is finished from other measures, how many it takes, and what they are."""


class Measure(Declaration):
    """A mergeable aggregate over each group of events, written `kind`, `kind(argument)` or
    `kind(argument) where condition`, such as `sum(delay) where delay > 15`.

    The names of SQL are accepted, too: `avg(x)` is `mean(x)`, `count(distinct x)` is `distinct(x)`, `count(*)` is
    `count`, `count_if(c)` is `count where c`, `median(x)` is `quantile(x, 0.5)`, `var_samp(x)` is `variance(x)`,
    `stddev_samp(x)` is `stddev(x)`, `bool_or(c)` and `some(c)` are `any(c)`, `bool_and(c)` is `every(c)`, and
    `approx_top_k(x, 10)` is `top(x, 10)`.
    """

    kind: MeasureKind
    """The aggregate. All aggregates ignore null, as in SQL. `distinct` is a mergeable estimate: exact up to 4,096
    values in a group, then within about 3 %. `any` and `every` take a condition, and say whether it is true for at
    least one event, or for all events. `variance` and `stddev` are sample statistics, as in SQL: they divide by n - 1,
    and are null for a single value. `var_pop` and `stddev_pop` divide by n. `first` and `last` use the order of event
    times. If these are equal, the lower partition is first, then the lower offset, then the lower place. `quantile` is
    a mergeable estimate within 1 % of the value at that rank, for values from 1e-9 to 1e18 and their negatives. `top`
    lists the most frequent values (as text), each with its count. The counts are exact up to 1,536 values in a group;
    with more values, each has its error. `ratio` divides two other measures after merging. It is null if the divisor is
    zero. `rate` divides a count or a sum by the seconds of the result's window. `user_defined` and `fold` are written
    with the name of their class's file.
    """

    argument: Expression | None = None
    """The expression to aggregate. `count` has none, `ratio` the names of two other measures of the metric,
    and `rate` the name of one. A user-defined measure may have several: an event counts if none of them is null.
    """

    quantile: Annotated[float, AfterValidator(_rank)] | None = None
    """For `quantile` alone: from 0, the smallest value, to 1, the largest. It is written after the argument."""

    limit: Annotated[int, AfterValidator(_limit)] | None = None
    """For `top` alone: the maximum number of values, from 1 to 100. It is written after the argument."""

    where: Expression | None = None
    """The condition, over fields and derived fields, that an event must fulfil to count in this measure. The group of
    an event that does not fulfil it still has a row.
    """

    user_measure: UserMeasure | None = None
    """For `user_defined` and `fold` alone: the class."""

    @model_validator(mode="after")
    def _check_argument(self) -> Self:
        if self.kind == "count" and self.argument is not None:
            raise refuse(
                f"got 'count({self.argument})', allowed is count without an argument; "
                "to count the events that fulfil a condition, write `count where condition`"
            )
        if self.kind in _OPERANDS:
            return self._check_operands()
        if self.kind != "count" and self.argument is None:
            example = EXAMPLES.get(self.kind, f"{self.word}(x)")
            raise refuse(
                f"got {describe(self.word)} without an argument, allowed is {example} with a field or expression"
            )
        if self.user_measure is not None:
            return self
        if self.argument is not None and outer_commas(self.argument):
            raise refuse(f"got {describe(str(self))}, allowed is {self.kind}(x) with one argument")
        last = LAST_ARGUMENTS.get(self.kind)
        if [name for name in _RANGES if getattr(self, name) is not None] != ([last] if last else []):
            number = f", with a number from {_RANGES[last]}" if last else ""
            raise refuse(f"got {describe(str(self))}, allowed is {EXAMPLES[self.kind]}{number}")
        return self

    def _check_operands(self) -> Self:
        number, names = _OPERANDS[self.kind]
        if len(self.operands) != number or not all(map(is_column_name, self.operands)) or self.where is not None:
            raise refuse(f"got {describe(str(self))}, allowed is {EXAMPLES[self.kind]} with {names}")
        return self

    @property
    def word(self) -> str:
        """What it is called in the text form."""
        return self.user_measure.name if self.user_measure else self.kind

    @property
    def arguments(self) -> list[str]:
        """The arguments of a user-defined measure, each an expression."""
        bounds = [-1, *(outer_commas(self.argument or "") or []), len(self.argument or "")]
        return [(self.argument or "")[start + 1 : end].strip() for start, end in pairwise(bounds)]

    @property
    def operands(self) -> list[str]:
        """The names of the measures that a ratio or a rate is finished from. Other kinds have none."""
        return [name.strip() for name in (self.argument or "").split(",")] if self.kind in _OPERANDS else []

    def __str__(self) -> str:
        arguments = [str(part) for part in (self.argument, self.quantile, self.limit) if part is not None]
        call = f"{self.word}({', '.join(arguments)})" if arguments else self.word
        return call if self.where is None else f"{call} where {self.where}"

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Parse the text form. Whitespace around the parts does not matter. Raises pydantic's ValidationError."""
        return _TEXT_FORM.validate_python(text)

    @classmethod
    def from_text_form(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the text form, the only one in YAML. A Measure is passed on. The context of the validation may have the
        user-defined measures by name.
        """
        if isinstance(value, cls):
            return value
        of_user: Mapping[str, UserMeasure] = info.context or {}
        parts = split_measure(value, of_user)
        own = of_user.get(parts["kind"])
        return parts | {"kind": own.kind, "user_measure": own} if own else parts


MeasureForm = Annotated[
    Measure,
    BeforeValidator(Measure.from_text_form),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": PATTERN,
            "examples": ["count", "sum(x)", "distinct(x)", "count where x > 0", "quantile(x, 0.99)", "ratio(a, b)"],
        }
    ),
]
"""A measure in its text form."""

_TEXT_FORM: TypeAdapter[Measure] = TypeAdapter(MeasureForm)
