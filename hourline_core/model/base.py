"""What every declaration shares: frozen, no unknown keys, and one way to refuse a value."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from hourline_core.errors import did_you_mean

REFUSAL = "declaration"
"""The type of the pydantic errors that carry a sentence of ours."""


class Declaration(BaseModel):
    """A frozen pydantic model. Built in Python, a mistake raises ``pydantic.ValidationError``; built by
    ``load_project``, DeclarationError.

    The docstrings under the attributes become the descriptions that ``hourline schema`` gives to editors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_the_default(cls, value: Any) -> Any:
        """``derived:`` with nothing after it (or with all of it commented out) is the same as no ``derived`` at all."""
        if not isinstance(value, dict):
            return value
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {key: item for key, item in value.items() if item is not None or key not in optional}


def refuse(sentence: str, *path: str) -> PydanticCustomError:
    """The error to raise in a validator; ``path`` leads from the validated value to the offending item, if that lies
    deeper.
    """
    return PydanticCustomError(REFUSAL, "{sentence}", {"sentence": sentence, "path": path})


def near(got: str, allowed: Iterable[str]) -> str:
    """`` — did you mean 'x'?`` or nothing: for sentences that list what is allowed themselves."""
    hint = did_you_mean(got, allowed)
    return hint if hint.startswith(" —") else ""


def shown(value: object) -> str:
    """``value`` as error messages show it: short, on one line, and never the inside of a mapping, where secrets live."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = " ".join(value.split()) if isinstance(value, str) else repr(value)
    return f"'{text if len(text) <= 80 else text[:77] + '...'}'"
