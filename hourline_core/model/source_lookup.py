"""How the events of a source find the rows of a lookup."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.expressions import Expression, column_names
from hourline_core.model.names import DerivedName, SourceName

_OWN_NAMES = ("event_time", "hour")


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class SourceLookup(Declaration):
    """How events find their rows of a lookup. `plane: tail_number` is short for `plane: {key: tail_number}`."""

    lookup: SourceName | None = None
    """The lookup's name, if it differs. So a source can use a lookup twice."""

    key: Annotated[tuple[Expression, ...], BeforeValidator(_one_or_more), pydantic.Field(min_length=1)]
    """The expression over the declared fields, `record` and `event_time` whose value is the key. A list of expressions
    if the lookup has several columns in its key. If one of them is null, the event has no row.
    """

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``plane: tail_number`` stands for ``plane: {key: tail_number}``."""
        return {"key": value} if isinstance(value, str | list) else value


SourceLookupForm = Annotated[
    SourceLookup,
    BeforeValidator(SourceLookup.from_short_form, json_schema_input_type=Expression | list[Expression] | SourceLookup),
]
SourceLookups = dict[DerivedName, SourceLookupForm]


def refuse_unfit(lookups: Mapping[str, SourceLookup], identity: str | None, derived: Mapping[str, str]) -> None:
    """Raise a refusal of a key, or an id, that names what it may not. ``derived`` are the derived fields."""
    for name, use in lookups.items():
        if name.casefold() in _OWN_NAMES:
            raise refuse(f"got the name '{name}', which has another meaning: choose another name", "lookups", name)
        for text in use.key:
            if found := _named(text, (*derived, *lookups)):
                raise refuse(
                    f"got '{text}', which names '{found}', allowed are declared fields, record and event_time",
                    "lookups",
                    name,
                )
    names = column_names(identity or "")
    for field, text in reversed(list(derived.items())):  # A derived field may use earlier ones.
        if field.casefold() in names:
            names |= column_names(text)
    for name in lookups:
        if name.casefold() in names:
            raise refuse(
                f"got an id that depends on the lookup '{name}': an identity may not change with a table", "id"
            )


def _named(text: str, names: Collection[str]) -> str | None:
    read = column_names(text)
    return next((name for name in names if name.casefold() in read), None)
