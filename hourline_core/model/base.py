"""The base of all declarations: frozen, without unknown keys, with one way to refuse a value."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hourline_core.errors import did_you_mean

REFUSAL = "declaration"
"""The type of the pydantic errors whose sentence Hourline wrote."""


class QuotedText(str):
    """A text that stands in quotes in YAML, and would be a number or a boolean without them."""


class Declaration(BaseModel):
    """A frozen pydantic model. Its constructor raises ``pydantic.ValidationError``, ``load_project`` DeclarationError.

    The docstrings under the attributes become the descriptions that ``hourline schema`` gives to editors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_keys(cls, value: Any) -> Any:
        """Treat ``derived:`` without a value like a declaration without ``derived``."""
        if not isinstance(value, dict):
            return value
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {key: item for key, item in value.items() if item is not None or key not in optional}

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_quotes(cls, value: Any, info: ValidationInfo) -> Any:
        """Take a text in quotes for text. pydantic would read a number from it."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, QuotedText) and (allowed := wanted_without_quotes(annotation)):
            raise refuse(quoted(value, allowed))
        # A declaration within it looks for itself. Of an expectation, only the audit knows what a parameter wants.
        has_own = Any in get_args(annotation) or any(issubclass(kind, BaseModel) for kind in _types_in(annotation))
        return value if has_own else as_plain_text(value)


def as_plain_text(value: Any) -> Any:
    """``value`` with plain texts in the place of those that stood in quotes, at every depth."""
    if isinstance(value, list | tuple):
        return type(value)(as_plain_text(item) for item in value)
    if isinstance(value, dict):
        return {name: as_plain_text(item) for name, item in value.items()}
    return str(value) if isinstance(value, QuotedText) else value


def wanted_without_quotes(annotation: Any) -> str | None:
    """What a value of this type is, if it is a number or a boolean and no text; else None."""
    kinds = set(_types_in(annotation))
    if str in kinds:
        return None
    if any(issubclass(kind, int | float) and kind is not bool for kind in kinds):
        return "a number"
    return "true or false" if bool in kinds else None


def _types_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from _types_in(argument)


def quoted(text: str, allowed: str) -> str:
    """The sentence that refuses a text in quotes where ``allowed`` is wanted."""
    return f"got {json.dumps(text, ensure_ascii=False)} in quotes, which is text, allowed is {allowed} without quotes"


def refuse(sentence: str, *path: str) -> PydanticCustomError:
    """The error to raise in a validator. ``path`` leads from the validated value to a mistake inside it."""
    return PydanticCustomError(REFUSAL, "{sentence}", {"sentence": sentence, "path": path})


def suggest(got: str, allowed: Iterable[str]) -> str:
    """`` — did you mean 'x'?``, or an empty string: for sentences that already list the allowed values."""
    hint = did_you_mean(got, allowed)
    return hint if hint.startswith(" —") else ""


def describe(value: object) -> str:
    """``value`` for an error message: short and on one line. Mappings are not shown, since they may hold secrets."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = " ".join(value.split()) if isinstance(value, str) else repr(value)
    return f"'{text if len(text) <= 80 else text[:77] + '...'}'"
