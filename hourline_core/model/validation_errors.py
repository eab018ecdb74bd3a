"""pydantic's errors as sentences that say what was got and what is allowed."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hourline_core.errors import did_you_mean
from hourline_core.model.base import REFUSAL, describe, suggest
from hourline_core.model.yaml_files import Document, KeyPath, Mistake

_ALLOWED = {
    "string_type": "text",
    "path_type": "a path",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_too_short": "text",
    "float_parsing": "a number",
    "list_type": "a list, such as [origin]",
    "tuple_type": "a list, such as [origin]",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a whole number from {ge}",
    "less_than_equal": "a whole number up to {le}",
}


def list_mistakes(error: ValidationError, model: type[BaseModel], document: Document) -> Iterator[Mistake]:
    """One mistake for each of pydantic's errors, with the line of the offending item."""
    for details in error.errors(include_url=False):
        path, text = _describe_error(details, model)
        yield Mistake(document.lines.get(document.nearest(path), 1), path, text)


def _describe_error(details: ErrorDetails, model: type[BaseModel]) -> tuple[KeyPath, str]:
    # pydantic ends the path with '[key]' when the mistake is in the key, not in its value. Tags of windows look alike.
    path = tuple(part for part in map(str, details["loc"]) if not part.startswith("["))
    if details["type"] == REFUSAL:
        return (*path, *details["ctx"]["path"]), details["ctx"]["sentence"]
    if details["type"] == "missing":
        return path, "is missing"
    return path, _sentence(details, _model_at(model, path), path)


def _sentence(details: ErrorDetails, model: type[BaseModel], path: KeyPath) -> str:
    context: dict[str, Any] = details.get("ctx", {})
    got = describe(details["input"])
    match details["type"]:
        case "extra_forbidden":
            return f"is not a known key{did_you_mean(path[-1], _keys(model))}"
        case "literal_error":
            # pydantic writes the values as: 'a', 'b' or 'c'
            values = context["expected"].split("'")[1::2]
            allowed = (
                f"{'is' if len(values) == 1 else 'are'} {', '.join(values)}{suggest(str(details['input']), values)}"
            )
        case "model_type":
            allowed = f"is a mapping with the keys {', '.join(_keys(model))}"
        case "dict_type":
            # The text itself is not shown: it may be a secret in the wrong place.
            got = "text" if isinstance(details["input"], str) and details["input"] else got
            allowed = "is a mapping, `name: value`"
        case "too_short":
            got, allowed = "nothing", "is at least one"
        case kind if kind in _ALLOWED:
            allowed = f"is {_ALLOWED[kind].format(**context)}"
        case _:
            allowed = f"is something else: {details['msg']}"
    return f"got {got}, allowed {allowed}"


def _keys(model: type[BaseModel]) -> list[str]:
    """The keys that a declaration may have."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    """The model that contains the item at ``path``. Names of fields, measures and so on are skipped."""
    for part in path:
        if part in model.model_fields:
            model = next(_models_in(model.model_fields[part].annotation), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
