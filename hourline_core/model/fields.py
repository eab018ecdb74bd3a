"""The typed fields of a source, and the Spark type of each."""

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.field_types import (
    ALLOWED_TYPES,
    SPARK_TYPES,
    DecimalType,
    TypeTree,
    is_spark_ddl,
    parse_type,
    spark_ddl,
)
from hourline_core.model.times import Zone


def _field_type(text: str) -> str:
    tree = parse_type(text)
    return str(tree) if isinstance(tree, DecimalType) else text.strip()


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
    """The type: `string`, `int`, `long`, `float`, `double`, `boolean`, `decimal(p,s)`, `timestamp`, `date`, or `json`,
    which keeps any value as its text. Nested types are written as in Spark, such as `struct<lat: double>`,
    `array<string>` or `map<string, double>`. [Types](types.md) says which values of JSON each of them takes, and
    [Formats](formats.md#what-each-type-takes) those of other formats.
    """

    required: bool = False
    """Whether an event without the field, or with null in it, is rejected."""

    key: Annotated[str, StringConstraints(min_length=1, pattern=r"^[^`'\\]+$")] | None = None
    """The field's name in the event, if it differs. A declared name has letters, digits and `_` only."""

    encoding: Literal["iso", "local", "epoch_seconds", "epoch_milliseconds"] = "iso"
    """How a `timestamp` is read. `iso`: ISO 8601 text with an offset or Z, or a timestamp of Avro or Protobuf. `local`:
    ISO 8601 text without an offset, or a local timestamp of Avro, in `zone`. `epoch_seconds` and `epoch_milliseconds`:
    a plain number since 1970 in UTC, without a logical type. Texts need seconds. All of them become UTC. A `date`
    is read as `2013-01-05`. A time of day is a `string`.
    """

    zone: Zone | None = None
    """The IANA time zone of a local `timestamp`, such as `America/New_York`."""

    round: bool = False
    """Whether a `decimal` with more digits behind the point than declared is rounded, a half away from zero. Otherwise
    such an event is rejected.
    """

    @model_validator(mode="after")
    def _check_encoding(self) -> Self:
        if self.encoding != "iso" and self.type != "timestamp":
            raise refuse(
                f"got the encoding '{self.encoding}' for a {self.type}, allowed is it for a timestamp only", "encoding"
            )
        if self.encoding == "local" and self.zone is None:
            raise refuse(
                "got the encoding 'local' without a zone, allowed is local with one, such as zone: America/New_York",
                "encoding",
            )
        if self.encoding != "local" and self.zone is not None:
            raise refuse("got a zone without a local encoding, allowed is a zone with encoding: local only", "zone")
        if self.round and not isinstance(self.tree, DecimalType):
            raise refuse(f"got round: true for a {self.type}, allowed is it for a decimal(p,s) only", "round")
        return self

    @cached_property
    def tree(self) -> TypeTree:
        """The type, parsed."""
        return parse_type(self.type)

    @property
    def spark_type(self) -> str:
        """The type as Spark DDL."""
        # The hash of a declaration has this text, so a text that Spark reads stays as it was written.
        is_as_written = self.type not in SPARK_TYPES and is_spark_ddl(self.tree)
        return self.type if is_as_written else spark_ddl(self.tree)

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``origin: string`` stands for ``origin: {type: string}``."""
        if value is None:
            raise refuse(f"got nothing, {ALLOWED_TYPES}")
        return {"type": value} if isinstance(value, str) else value


FieldForm = Annotated[Field, BeforeValidator(Field.from_short_form, json_schema_input_type=FieldType | Field)]
"""A field in its long or short form."""
