"""A table: another source, of which one event of each key is the row (KTable). Snapshots and upserts take one."""

from typing import Annotated, Any, Self

import pydantic
from pydantic import BeforeValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expressions import Expression
from hourline_core.model.lookup import RECORD_KEY
from hourline_core.model.names import FieldName, SourceName, refuse_same_names

KEY_FIELD = "record_key"
"""The field of a row with the key of its record, if that is the key of the table."""


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TableKey = Annotated[tuple[FieldName, ...], BeforeValidator(_names, json_schema_input_type=list[FieldName] | FieldName)]
"""A field, or a list of fields."""


class Table(Declaration):
    """A table whose rows become events. One event of each key is its row."""

    of: SourceName
    """The name of the source that is the table."""

    key: TableKey = ()
    """The field, or list of fields, whose newest event is a row. If left out, the key of the record, of the source's
    `key_type`. Then a record without a value, a tombstone, deletes the row of its key. An event with null in its key is
    no row.
    """

    columns: Annotated[
        tuple[FieldName, ...],
        BeforeValidator(_names, json_schema_input_type=list[FieldName] | FieldName),
        pydantic.Field(min_length=1),
    ]
    """The fields that a row has beside those of the key."""

    deleted: Expression | None = None
    """The condition, over fields and derived fields of the source, under which an event deletes the row of its key."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a row, in order: those of the key, and the columns."""
        return (*self.key, *self.columns)

    @property
    def deciding_fields(self) -> tuple[str, ...]:
        """The fields of the source that decide what a row is."""
        return self.names

    @property
    def is_by_record_key(self) -> bool:
        """Whether the key of the record is the key of the table."""
        return not self.key

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of a row that are its key."""
        return self.key or (KEY_FIELD,)

    @model_validator(mode="before")
    @classmethod
    def _refuse_record_key(cls, value: Any) -> Any:
        """The key of the record has no name, since a name with a dot is no field's."""
        if isinstance(value, dict) and value.get("key") in (RECORD_KEY, [RECORD_KEY]):
            raise refuse(f"got {describe(RECORD_KEY)}, which is the key if none is given: leave it out", "key")
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        refuse_same_names(key=self.key, columns=self.columns)
        return self
