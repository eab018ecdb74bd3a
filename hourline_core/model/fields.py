"""The typed fields of a source, and the Spark type of each."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, describe, refuse, suggest
from hourline_core.model.expressions import UNCLOSED, outer_commas
from hourline_core.model.times import Zone

SPARK_TYPES = {
    "string": "string",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "date": "date",
}
_OTHER_WORDS = {
    "bigint": "long",
    "integer": "int",
    "smallint": "int",
    "number": "double",
    "numeric": "decimal(18,2)",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "varchar": "string",
    "datetime": "timestamp",
    "time": "timestamp",
    "list": "array<string>",
    "object": "struct<a: string>",
}
_ALLOWED = f"allowed are {', '.join(SPARK_TYPES)}, decimal(p,s), struct<a: string, …>, array<…> and map<…, …>"
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)
_NESTED = re.compile(r"(struct|array|map)\s*<(.*)>", re.DOTALL)


def _field_type(text: str) -> str:
    text = text.strip()
    if text in SPARK_TYPES:
        return text
    if outer_commas(text, opening="(<", closing=")>") is None:
        raise refuse(f"got {describe(text)}, {UNCLOSED}")
    if decimal := _DECIMAL.fullmatch(text):
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
        raise refuse(f"got {describe(text)}, allowed is decimal(p,s) with p from 1 to 38 and s from 0 to p")
    if nested := _NESTED.fullmatch(text):
        _check_nested(text, kind=nested[1], inside=nested[2])
        return text
    word = re.split(r"[(<]", text.casefold())[0].strip()
    if word == "decimal":
        raise refuse(f"got {describe(text)}, allowed is decimal(p,s), such as decimal(18,2)")
    if word in _OTHER_WORDS:
        raise refuse(f"got {describe(text)}, {_ALLOWED} — did you mean '{_OTHER_WORDS[word]}'?")
    raise refuse(f"got {describe(text)}, {_ALLOWED}{suggest(word, [*SPARK_TYPES, 'struct', 'array', 'map'])}")


def _check_nested(text: str, *, kind: str, inside: str) -> None:
    commas = outer_commas(inside, opening="(<", closing=")>")
    allowed = {"struct": "struct<name: type, …>", "array": "array<type>", "map": "map<type, type>"}[kind]
    count = {"array": 0, "map": 1}.get(kind)
    if commas is None or not inside.strip() or (count is not None and len(commas) != count):
        raise refuse(f"got {describe(text)}, allowed is {allowed}")


FieldType = Annotated[
    str,
    AfterValidator(_field_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(SPARK_TYPES)},
                {"type": "string", "pattern": r"^\s*(decimal\s*\(|(struct|array|map)\s*<)"},
                {"type": "string", "pattern": r"\$\{"},
            ]
        }
    ),
]


class Field(Declaration):
    """One field of a source's events. `name: type` is short for `name: {type: type}`."""

    type: FieldType
    """The type: `string`, `int`, `long`, `float`, `double`, `boolean`, `decimal(p,s)`, `timestamp` or `date`. Nested
    types are written as in Spark, such as `struct<lat: double>`, `array<string>` or `map<string, double>`.
    """

    required: bool = False
    """Whether an event without the field, or with null in it, is rejected."""

    key: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^`'\\]+$")] | None = None
    """The field's name in the event, if it differs. A declared name has letters, digits and `_` only."""

    encoding: Literal["iso", "local"] = "iso"
    """How the text of a `timestamp` is read. `iso`: ISO 8601 with an offset or Z. `local`: ISO 8601 without an offset,
    in `zone`. Both need seconds, and become UTC. A `date` is read as `2013-01-05`. A time of day is a `string`.
    """

    zone: Zone | None = None
    """The IANA time zone of a local `timestamp`, such as `America/New_York`."""

    @model_validator(mode="after")
    def _check_encoding(self) -> Self:
        if self.encoding == "local" and self.type != "timestamp":
            raise refuse(f"got the encoding 'local' for a {self.type}, allowed is it for a timestamp only", "encoding")
        if self.encoding == "local" and self.zone is None:
            raise refuse(
                "got the encoding 'local' without a zone, allowed is local with one, such as zone: America/New_York",
                "encoding",
            )
        if self.encoding != "local" and self.zone is not None:
            raise refuse("got a zone without a local encoding, allowed is a zone with encoding: local only", "zone")
        return self

    @property
    def spark_type(self) -> str:
        """The type as Spark DDL."""
        return SPARK_TYPES.get(self.type, self.type)

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``origin: string`` stands for ``origin: {type: string}``."""
        if value is None:
            raise refuse(f"got nothing, {_ALLOWED}")
        return {"type": value} if isinstance(value, str) else value


FieldForm = Annotated[Field, BeforeValidator(Field.from_short_form, json_schema_input_type=FieldType | Field)]
"""A field in its long or short form."""
