"""The format of a source's records: JSON, or one with a schema."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import AfterValidator, BeforeValidator, model_validator

from hourline_core.model.avro_defaults import refuse_wrong_defaults
from hourline_core.model.avro_schema import AvroSchemaError, parse_avro
from hourline_core.model.base import Declaration, describe, refuse, suggest
from hourline_core.model.csv_format import CsvFormat
from hourline_core.model.fields import Field
from hourline_core.model.protobuf_format import ProtobufFormat, schema_files
from hourline_core.model.record_types import fields_of
from hourline_core.model.registry import RegistryAccess
from hourline_core.model.text_format import TextFormat
from hourline_core.model.yaml_files import KeyPath


def _avro_schema(text: str) -> str:
    try:
        parse_avro(text)
    except AvroSchemaError as error:
        raise refuse(str(error)) from None
    return text


class AvroFormat(Declaration):
    """Records in Avro's binary encoding, of one schema."""

    schema_: Annotated[str, AfterValidator(_avro_schema)] = pydantic.Field(alias="schema")
    """The schema of a record: the name of a file in the folder `schemas`, or the schema itself as JSON."""

    registry: bool = False
    """Whether each record names the schema that it was written by, which the schema registry of `hourline.yaml` has:
    by its id in front of the value, or in the header `__value_schema_id`. `schema` is the schema that records are
    mapped to.
    """

    @model_validator(mode="after")
    def _check_defaults(self) -> Self:
        if self.registry:
            try:
                refuse_wrong_defaults(parse_avro(self.schema_))
            except AvroSchemaError as error:
                raise refuse(str(error), "schema") from None
        return self

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The declared type that follows from each member of the record. None: none does."""
        return dict(fields_of(parse_avro(self.schema_)))


class JsonFormat(Declaration):
    """Records that are JSON objects."""

    registry: bool = False
    """Whether each record names a JSON Schema, which the schema registry of `hourline.yaml` has: by its id in front of
    the object, or in the header `__value_schema_id`. Records are decoded by the declared fields, and are not validated
    by the schema.
    """


class RecordFormat(Declaration):
    """The format of a record's value: either `json`, or a mapping with exactly one of these keys."""

    avro: AvroFormat | None = None
    """Avro's binary encoding of one record, without anything in front of it but the id of a registry's schema."""

    protobuf: ProtobufFormat | None = None
    """One message of Protobuf, without anything in front of it but what names a registry's schema."""

    csv: CsvFormat | None = None
    """One row of CSV."""

    text: TextFormat | None = None
    """A text, of which a regular expression with named groups takes the fields."""

    json_: JsonFormat | None = pydantic.Field(default=None, alias="json")
    """One JSON object, as with the short form `json`."""

    _registry: RegistryAccess | None = pydantic.PrivateAttr(default=None)

    @property
    def name(self) -> str:
        """The name of the format."""
        return next(iter(self.model_fields_set), "json").rstrip("_")

    @property
    def is_binary(self) -> bool:
        """Whether a record is no text."""
        return self.avro is not None or self.protobuf is not None or self.uses_registry

    @property
    def is_plain_json(self) -> bool:
        """Whether a record is a JSON object, with nothing in front of it."""
        return self.name == "json" and not self.uses_registry

    @property
    def takes_empty(self) -> bool:
        """Whether a value without bytes is a record: a message of Protobuf whose members all have their defaults."""
        return self.protobuf is not None

    @property
    def with_schema(self) -> AvroFormat | ProtobufFormat | CsvFormat | TextFormat | None:
        """What is declared of a format with a schema. None: it has none."""
        return None if self.name == "json" else getattr(self, self.name)

    @property
    def uses_registry(self) -> bool:
        """Whether each record names the schema that it was written by."""
        return bool(getattr(self.json_ or self.with_schema, "registry", False))

    @property
    def registry(self) -> RegistryAccess | None:
        """The registry of those schemas. None: records name none. The format is bound."""
        assert self._registry or not self.uses_registry, "a project has bound it"
        return self._registry

    def bind_registry(self, access: RegistryAccess) -> Self:
        """The format with the registry that has the schemas of its records."""
        bound = self.model_copy()
        bound._registry = access
        return bound

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The fields that follow from the schema: the declared type of each. None: none does."""
        return self.with_schema.fields if self.with_schema else {}

    def refuse_unknown(self, fields: Mapping[str, Field]) -> None:
        """Raise a refusal of the first of ``fields`` that no record can have: no column, and no group."""
        if not (self.csv or self.text):
            return
        what = "columns" if self.csv else "groups of the pattern"
        for name, field in fields.items():
            key = field.key or name
            if key not in self.fields:
                names = ", ".join(self.fields)
                allowed = f"allowed are the {what}: {names}{suggest(key, self.fields)}"
                raise refuse(f"got '{key}', {allowed}", "fields", name, *(["key"] if field.key else []))


def _format(value: Any) -> Any:
    if value == "json":
        return RecordFormat()
    if isinstance(value, RecordFormat) or (isinstance(value, dict) and len(value) == 1 and None not in value.values()):
        return value
    names = ", ".join(name.rstrip("_") for name in RecordFormat.model_fields)
    allowed = f"allowed are json, or a mapping of one of {names}, such as avro: {{schema: orders.avsc}}"
    raise refuse(f"got {describe(value)}, {allowed}")


RecordFormatForm = Annotated[
    RecordFormat, BeforeValidator(_format, json_schema_input_type=Literal["json"] | RecordFormat)
]
"""A format in its short or long form."""


def read_schema_files(format: Any, read: Callable[[str, KeyPath], str], folder: Path) -> None:
    """Replace each name of a file in ``format``, as it was declared, by its content.

    ``read`` gives it, from the name and the place of the name within the format. Files of ``folder`` that a schema of
    Protobuf imports come with it.
    """
    if not isinstance(format, dict):
        return
    for kind, declared in format.items():
        schema = declared.get("schema") if isinstance(declared, dict) else None
        if not isinstance(schema, str):
            continue
        file, text = (schema, read(schema, (kind, "schema"))) if _names_file(schema) else ("", schema)
        declared["schema"] = schema_files(file, text, folder) if kind == "protobuf" and text else text


def _names_file(schema: str) -> bool:
    is_of_proto = ";" in schema or "{" in schema
    return "\n" not in schema.strip() and not is_of_proto and not schema.lstrip().startswith(("[", '"'))
