"""The base of all declarations: frozen, without unknown keys, with one way to refuse a value."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from hourline_core.errors import did_you_mean

REFUSAL = "declaration"
"""The type of the pydantic errors whose sentence Hourline wrote."""


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
