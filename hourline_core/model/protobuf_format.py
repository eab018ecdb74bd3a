"""The declaration of records in Protobuf."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic import BeforeValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.protobuf_schema import (
    ProtobufSchemaError,
    SchemaFiles,
    choose_message,
    compile_protobuf,
    imports_of,
)
from hourline_core.model.protobuf_types import record_of
from hourline_core.model.record_types import fields_of


def _files(value: Any) -> Any:
    """The files of a schema that is its text alone. Loading a project gives a schema with the files that it imports."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, str) or not value.strip():
        raise refuse(f"got {describe(value)}, allowed is the name of a file in the folder schemas, or a schema itself")
    return (("", value),)


SchemaForm = Annotated[SchemaFiles, BeforeValidator(_files, json_schema_input_type=str)]
"""A schema, as a project declares it: a name or a text."""


class ProtobufFormat(Declaration):
    """Records that are messages of Protobuf, of one schema."""

    schema_: SchemaForm = pydantic.Field(alias="schema")
    """The schema: the name of a file of .proto in the folder `schemas`, or its text. It may import other files of the
    folder, and those that Google brings.
    """

    message: str | None = None
    """The full name of the message that a record is, such as `shop.Order`. It may be left out if this file declares
    one message at its top. Imported files do not count.
    """

    registry: bool = False
    """Whether each record names the schema that it was written by, which the schema registry of `hourline.yaml` has:
    by its id in front of the message, or in the header `__value_schema_id`. `schema` is the schema that records are
    mapped to, by the numbers of members.
    """

    _compiled: bytes = pydantic.PrivateAttr(b"")
    _chosen: str = pydantic.PrivateAttr("")

    @property
    def compiled(self) -> bytes:
        """The schema as a FileDescriptorSet."""
        return self._compiled

    @property
    def full_name(self) -> str:
        """The full name of the message that a record is."""
        return self._chosen

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The declared type that follows from each member of the message. None: none does."""
        return dict(fields_of(record_of(self._compiled, self._chosen)))

    @model_validator(mode="after")
    def _compile(self) -> Self:
        try:
            self._compiled = compile_protobuf(self.schema_)
        except ProtobufSchemaError as error:
            raise refuse(str(error), "schema") from None
        try:
            self._chosen = choose_message(self._compiled, self.message)
        except ProtobufSchemaError as error:
            raise refuse(str(error), "message") from None
        return self


def schema_files(name: str, text: str, folder: Path) -> SchemaFiles:
    """``text``, which is that of the file ``name`` or of the declaration, with the files of ``folder`` that it imports.

    One that cannot be read is left out: the compiler tells where it is imported.
    """
    texts = {name: text}
    waiting = [*imports_of(text)]
    while waiting:
        imported = waiting.pop(0)
        path = Path(imported)
        if imported in texts or path.is_absolute() or ".." in path.parts:
            continue
        try:
            texts[imported] = (folder / path).read_text("utf-8")
        except (OSError, ValueError):
            continue
        waiting += imports_of(texts[imported])
    return tuple(texts.items())
