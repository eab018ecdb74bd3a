"""A snapshot: the events of a source are the rows that a table has at the end of each hour. The table is another
source, of which the newest event of each key is the row (KTable).
"""

from datetime import timedelta
from typing import Annotated, Any, Self

import pydantic
from pydantic import AfterValidator, BeforeValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expressions import Expression
from hourline_core.model.lookup import RECORD_KEY
from hourline_core.model.names import FieldName, SourceName, refuse_same_names
from hourline_core.model.times import Duration, duration_text

SNAPSHOT_TIME, SNAPSHOT_ROW, SNAPSHOT_KEY = "snapshot_time", "snapshot_row", "record_key"
"""The fields of a row, beside its columns: the end of the hour or hours, the address of the event that is the row, and
the key of its record, if that is the key of the table.
"""
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _every(every: timedelta) -> timedelta:
    if every < _HOUR or every % _HOUR or _DAY % every:
        raise refuse(f"got {duration_text(every)}, allowed are 1h, 2h, 3h, 4h, 6h, 8h, 12h and 1d")
    return every


class Snapshot(Declaration):
    """The rows of a table at the end of each hour, or of each few hours. The newest event of a key is its row. The
    event time decides what is newest, and the arrival among events with the same one.
    """

    of: SourceName
    """The name of the source that is the table."""

    key: Annotated[
        tuple[FieldName, ...],
        BeforeValidator(_names, json_schema_input_type=list[FieldName] | FieldName),
    ] = ()
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

    every: Annotated[Duration, AfterValidator(_every)] = _HOUR
    """The time from one snapshot to the next: whole hours that divide a day, from midnight on (UTC)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a row, in order: those of the key, and the columns."""
        return (*self.key, *self.columns)

    @property
    def is_by_record_key(self) -> bool:
        """Whether the key of the record is the key of the table."""
        return not self.key

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of a row that are its key."""
        return self.key or (SNAPSHOT_KEY,)

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
