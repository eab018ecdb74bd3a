"""An upsert: the events of a source are those of another one, of each key the newest version."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.model.base import refuse
from hourline_core.model.expressions import Expression
from hourline_core.model.names import FieldName
from hourline_core.model.table import Table, TableKey
from hourline_core.model.times import Duration, duration_text

UPSERT_ROW = "upsert_row"
"""The field of a row, beside its key, its columns and its event time: the address of the event that is the row."""
VERSION_TYPES = ("int", "long", "date", "timestamp", "string")
"""The types of versions, whose order each engine has alike."""
_LEAST, _MOST = timedelta(seconds=1), timedelta(days=3650)


def _within(within: timedelta) -> timedelta:
    if not _LEAST <= within <= _MOST:
        raise refuse(f"got {duration_text(within)}, allowed is from {duration_text(_LEAST)} to {duration_text(_MOST)}")
    return within


class Upsert(Table):
    """The newest version of each key, at its event time, as far as versions are `within` some time of each other. Of
    equal versions, the first to arrive counts.
    """

    key: TableKey = ()
    """The field, or list of fields, that all versions of an event share. If left out, the key of the record, of the
    source's `key_type`. Then a record without a value, a tombstone, deletes the versions of its key before it. An event
    with null in its key is no version.
    """

    deleted: Expression | None = None
    """The condition, over fields and derived fields of the source, under which a version deletes the event: it replaces
    older ones, and does not count.
    """

    version: FieldName
    """The field that says which event of a key is the newest: the one with the greatest value. Null is before all."""

    within: Annotated[Duration, AfterValidator(_within)]
    """The maximum distance of the event times of two versions of which the newer one replaces the older one. A
    micro-batch looks for versions in twice this time before and after its events.
    """

    @property
    def deciding_fields(self) -> tuple[str, ...]:
        return (*self.names, *(() if self.version in self.names else (self.version,)))
