"""A schema that records were written by, as a registry has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hourline_core.formats.registry.wire_format import SchemaId

SchemaKind: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]


@dataclass(frozen=True)
class WrittenSchema:
    """A schema with an id. A schema never changes by its id."""

    id: SchemaId
    kind: str
    """A SchemaKind, or what a later registry has beside these."""
    text: str
    references: Mapping[str, str] = field(default_factory=dict)
    """The texts of the schemas that it names, each behind those that it names itself."""
    subjects: tuple[str, ...] = ()
    """The subjects that it was registered in, as far as they are known."""

    def __str__(self) -> str:
        known = ", ".join(f"'{name}'" for name in self.subjects)
        of = f" ({'subject' if len(self.subjects) == 1 else 'subjects'} {known})" if known else ""
        return f"schema id {self.id}{of}"
