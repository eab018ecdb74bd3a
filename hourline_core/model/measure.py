"""A measure: a mergeable aggregate, written ``count`` or ``sum(delay)``."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expressions import UNCLOSED, Expression, outer_commas

MeasureKind = Literal["count", "sum", "min", "max", "mean", "distinct"]
KINDS: tuple[str, ...] = get_args(MeasureKind)
_FORMS = ", ".join(kind if kind == "count" else f"{kind}(x)" for kind in KINDS)
_ALLOWED = f"allowed are {_FORMS}"
SYNONYMS: Mapping[str, MeasureKind] = {"avg": "mean"}
"""SQL's own words for a kind. A declaration may use them; it is read as if it had the kind."""
_COUNT_DISTINCT = re.compile(r"distinct\b\s*(.*)", re.IGNORECASE | re.DOTALL)
OTHER_WORDS: Mapping[str, str] = {
    **SYNONYMS,
    "average": "mean",
    "total": "sum",
    "minimum": "min",
    "maximum": "max",
    "nunique": "distinct",
    "count_distinct": "distinct",
    "approx_count_distinct": "distinct",
}
_NO_PART_OF_QUANTILE = "the medians (or percentiles) of two parts do not say what that of the whole is"
_NO_PART_OF_MODE = "the most frequent value of the whole need not be the most frequent one of any part"
_NO_PART_OF_RANK = "an event's rank among a part does not say its rank in the whole"
NOT_MERGEABLE = {
    "median": _NO_PART_OF_QUANTILE,
    "percentile": _NO_PART_OF_QUANTILE,
    "quantile": _NO_PART_OF_QUANTILE,
    "mode": _NO_PART_OF_MODE,
    "rank": _NO_PART_OF_RANK,
    "dense_rank": _NO_PART_OF_RANK,
    "row_number": _NO_PART_OF_RANK,
}
"""Aggregates whose partial results cannot be merged, and why."""

_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:\((.*)\))?", re.DOTALL | re.ASCII)


class Measure(Declaration):
    """A mergeable aggregate over each group of events, written `kind` or `kind(argument)`, such as `sum(delay)`.

    SQL's words are read, too: `avg(x)` is `mean(x)`, `count(distinct x)` is `distinct(x)`, and `count(*)` is `count`.
    """

    kind: MeasureKind
    """The aggregate. All aggregates ignore null, as in SQL. `distinct` is a mergeable estimate: exact up to 4,096
    values in a group, then within about 3 %.
    """

    argument: Expression | None = None
    """The expression to aggregate. `count` has none."""

    @model_validator(mode="after")
    def _check_argument(self) -> Self:
        if self.kind == "count" and self.argument is not None:
            raise refuse(
                f"got 'count({self.argument})', allowed is count without an argument; "
                "to count the events that fulfil a condition, write sum(if(condition, 1, 0))"
            )
        if self.kind != "count" and self.argument is None:
            raise refuse(
                f"got {describe(self.kind)} without an argument, allowed is {self.kind}(x) with a field or expression"
            )
        if self.argument is not None and outer_commas(self.argument):
            raise refuse(f"got {describe(str(self))}, allowed is {self.kind}(x) with one argument")
        return self

    def __str__(self) -> str:
        return self.kind if self.argument is None else f"{self.kind}({self.argument})"

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Parse the text form. Whitespace around the parts does not matter. Raises pydantic's ValidationError."""
        return _TEXT_FORM.validate_python(text)

    @classmethod
    def from_text_form(cls, value: Any) -> Any:
        """Read the text form, the only one in YAML. A Measure is passed on."""
        return value if isinstance(value, cls) else cls._parts(value)

    @staticmethod
    def _parts(text: Any) -> dict[str, str | None]:
        call = _CALL.fullmatch(text.strip()) if isinstance(text, str) else None
        if isinstance(text, str) and outer_commas(text) is None:
            raise refuse(f"got {describe(text)}, {UNCLOSED}")
        if call is None or outer_commas(call[2] or "") is None:
            raise refuse(f"got {describe(text)}, {_ALLOWED}")
        kind, argument = SYNONYMS.get(call[1], call[1]), (call[2] or "").strip()
        if kind not in KINDS:
            raise _unknown_kind(text.strip(), kind, argument)
        if kind == "count" and (of := _COUNT_DISTINCT.fullmatch(argument)):
            kind, argument = "distinct", of[1].strip()
        elif kind == "count" and argument == "*":
            argument = ""
        elif kind == "count" and call[2] is not None and not argument:
            raise refuse(f"got {describe(text)}, {_ALLOWED} — did you mean 'count'?")
        return {"kind": kind, "argument": argument or None}


def _unknown_kind(text: str, kind: str, argument: str) -> PydanticCustomError:
    for name, reason in NOT_MERGEABLE.items():
        if re.match(rf"(approx_)?{name}(_approx|_cont|_disc)?$", kind, re.IGNORECASE):
            return refuse(f"got {describe(text)}, which cannot be merged from partial results ({reason}); {_ALLOWED}")
    meant = OTHER_WORDS.get(kind.lower()) or next(iter(get_close_matches(kind.lower(), KINDS, n=1)), None)
    if meant is None:
        return refuse(f"got {describe(text)}, {_ALLOWED}")
    # The whole call, ready to copy.
    call = meant if meant == "count" else f"{meant}({argument or 'x'})"
    return refuse(f"got {describe(text)}, {_ALLOWED} — did you mean '{call}'?")


MeasureForm = Annotated[
    Measure,
    BeforeValidator(Measure.from_text_form),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*({'|'.join([*KINDS, *SYNONYMS])})\s*(\([\s\S]*\))?\s*$",
            "examples": ["count", "sum(x)", "mean(x)", "distinct(x)"],
        }
    ),
]
"""A measure in its text form."""

_TEXT_FORM: TypeAdapter[Measure] = TypeAdapter(MeasureForm)
