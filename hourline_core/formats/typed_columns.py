"""The columns of declared fields, collected record by record from values of a schema's types."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.columns.column_of import column_of
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.conversion import Convert, conversion
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.unfit import UnfitError
from hourline_core.model.fields import Field
from hourline_core.model.record_types import Record


class RecordConversion:
    """How the members of a ``record`` become ``fields``, each of which is a member by its key, or by its name.

    ``fault`` says why no record of it can be read: a member is missing, or is of a type that its field does not take.
    """

    def __init__(self, record: Record, fields: Mapping[str, Field]) -> None:
        kinds = {member.name: member.type for member in record.members}
        keys = {name: field.key or name for name, field in fields.items()}
        self.members = tuple(name for name in kinds if name in keys.values())
        """The names of the members that are fields, in the order of the record."""
        self.fault: UnfitError | None = None
        self._steps: list[tuple[str, int, Convert | None]] = []
        for name, field in fields.items():
            try:
                if keys[name] not in kinds:
                    raise UnfitError(f"a schema without '{keys[name]}'", f"one of {', '.join(kinds) or 'none'}")
                convert = conversion(kinds[keys[name]], Reading.of(field, numeric=True))
                self._steps.append((name, self.members.index(keys[name]), convert))
            except UnfitError as fault:
                self.fault = self.fault or fault.within(name)

    def convert(self, values: list[Any]) -> dict[str, Any]:
        """The values of the fields by name, from those of ``members``. Raises UnfitError, and names the field in it."""
        if self.fault:
            raise self.fault
        converted: dict[str, Any] = {}
        for name, place, convert in self._steps:
            value = values[place]
            try:
                converted[name] = value if value is None or convert is None else convert(value)
            except UnfitError as fault:
                raise fault.within(name) from None
        return converted

    def convert_columns(
        self, columns: Sequence[list[Any]]
    ) -> Iterator[tuple[str, list[Any], Mapping[int, UnfitError]]]:
        """The column of each field, from those of ``members``, and what is wrong with the values at some places."""
        for name, place, convert in self._steps:
            values = columns[place]
            if convert is None:
                yield name, values, {}
                continue
            try:
                yield name, [None if value is None else convert(value) for value in values], {}
            except UnfitError:
                yield name, *_convert_each(convert, values, name)


def _convert_each(convert: Convert, values: list[Any], name: str) -> tuple[list[Any], Mapping[int, UnfitError]]:
    converted: list[Any] = [None] * len(values)
    faults = {}
    for place, value in enumerate(values):
        try:
            converted[place] = None if value is None else convert(value)
        except UnfitError as fault:
            faults[place] = fault.within(name)
    return converted, faults


class TypedColumns:
    """Columns of ``fields`` for a number of records, in any order. Those that are not added are null."""

    def __init__(self, fields: Mapping[str, Field], length: int) -> None:
        self._readings = {name: Reading.of(field, numeric=True) for name, field in fields.items()}
        self._values: dict[str, list[Any]] = {name: [None] * length for name in fields}
        self._reasons: dict[int, str] = {}
        self._length = length

    def add(self, place: int, conversion: RecordConversion, values: list[Any]) -> None:
        """Add the record at ``place``, with the ``values`` of the members that are fields, or refuse it."""
        try:
            converted = conversion.convert(values)
        except UnfitError as fault:
            self.refuse(place, fault.reason())
            return
        for name, value in converted.items():
            self._values[name][place] = value

    def add_columns(self, places: Sequence[int], conversion: RecordConversion, columns: Sequence[list[Any]]) -> None:
        """Add the records at ``places``, in ascending order, with the column of each member that is a field."""
        if conversion.fault:
            for place in places:
                self.refuse(place, conversion.fault.reason())
            return
        for name, values, faults in conversion.convert_columns(columns):
            column = self._values[name]
            if places and places[-1] - places[0] + 1 == len(places):
                column[places[0] : places[-1] + 1] = values
            else:
                for place, value in zip(places, values, strict=True):
                    column[place] = value
            for place, fault in faults.items():
                self._reasons.setdefault(places[place], fault.reason())

    def refuse(self, place: int, reason: str) -> None:
        """Refuse the record at ``place``."""
        self._reasons[place] = reason

    def finish(self) -> DecodedRecords:
        """The columns, and the reasons."""
        columns = {}
        for name, reading in self._readings.items():
            column = column_of(reading, self._values[name])
            columns[name] = column.values
            for place in column.refused:
                self._reasons.setdefault(place, f"field '{name}': got another value, want {reading.want}")
        reasons = pa.array(map(self._reasons.get, range(self._length)), pa.string(), size=self._length)
        if self._reasons:
            is_taken = reasons.is_null()
            columns = {
                name: pc.if_else(is_taken, column, pa.scalar(None, column.type)) for name, column in columns.items()
            }
        return DecodedRecords(columns, reasons)
