"""Cells of text become the columns of declared fields: those of a row of CSV, or the groups of a regular expression.

``TypedRow`` says which value a cell is. Here, whole columns of the usual spellings are converted at once. All other
cells are left to it and to the decoder of JSON, which also has the words for what is refused.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.arrow_types import arrow_type
from hourline_core.formats.columns.column import Column, convert_fitting, refuse_unless
from hourline_core.formats.columns.decimals import plain_pattern
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.times import dates, epochs, local_moments, moments
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.files.json_values import quote
from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.field_types import DecimalType, ScalarType
from hourline_core.model.fields import Field

_INTEGER = r"\A(?:-?[1-9][0-9]{0,17}|0)\z"
_NUMBER = r"\A(?:-?(?:[1-9][0-9]{0,14}(?:\.[0-9]{1,17})?|0\.[0-9]{1,17})|0)\z"
"""Numbers that are far from the ends of a float. ``-0`` is an integer in JSON, and so is 0 without a sign."""
_EPOCH = r"\A-?(?:[1-9][0-9]{0,14}|0)(?:\.[0-9]{1,9})?\z"
_TRUE, _FALSE = (pa.array(words) for words in (["true", "True", "TRUE"], ["false", "False", "FALSE"]))


class CellColumns:
    """Makes the columns of ``fields``, each of which is a cell by its key, or by its name."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        self._by_key: dict[str, list[_CellField]] = {}
        for name, field in fields.items():
            self._by_key.setdefault(field.key or name, []).append(_CellField(name, field))

    @property
    def keys(self) -> frozenset[str]:
        """The names of the cells that are fields."""
        return frozenset(self._by_key)

    def decode(self, cells: Mapping[str, pa.Array], reasons: Mapping[int, str], length: int) -> DecodedRecords:
        """The columns of ``length`` records, from columns of their ``cells`` by name, in the order of a record.

        Records with one of ``reasons`` have null in all of them. The reason of another one is its first cell that is
        refused.
        """
        columns: dict[str, pa.Array] = {}
        why = dict(reasons)
        for key, column in cells.items():
            for field in self._by_key.get(key, []):
                columns[field.name], refused = field.column(column)
                for place, reason in refused.items():
                    why.setdefault(place, reason)
        if why:
            taken = pa.array([None if place in why else place for place in range(length)], pa.int64())
            columns = {name: column.take(taken) for name, column in columns.items()}
        return DecodedRecords(
            {name: columns[name] for name in self._fields},
            pa.array(map(why.get, range(length)), pa.string(), size=length),
        )


class _CellField:
    """How cells become values of one field."""

    def __init__(self, name: str, field: Field) -> None:
        self.name = name
        self._reading = Reading.of(field)
        self._before = f"{{{quote(field.key or name)}:"
        self._typed = TypedRow({name: field})
        self._decoder = JsonDecoder({name: field})

    def column(self, cells: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The column of ``cells`` (string), and by its place, why a cell is refused."""
        usual = _usual(self._reading, cells)
        if not usual.refused:
            return usual.values, {}
        others = [self._typed(f"{self._before}{quote(cells[place].as_py())}}}".encode()) for place in usual.refused]
        decoded = self._decoder.decode(pa.array(others, pa.binary()))
        places = list(range(len(cells)))
        for number, place in enumerate(usual.refused, start=len(cells)):
            places[place] = number
        column = pa.concat_arrays([usual.values, decoded.columns[self.name]]).take(pa.array(places, pa.int64()))
        refused = zip(usual.refused, decoded.reasons.to_pylist(), strict=True)
        return column, {place: reason for place, reason in refused if reason is not None}


def _usual(reading: Reading, cells: pa.Array) -> Column:  # noqa: PLR0911 (a table of types)
    """The values of cells in their usual spelling. All others are refused, and may be values nevertheless."""
    kind = arrow_type(reading.tree)
    match reading.tree:
        case ScalarType("string"):
            return Column(cells, [])
        case ScalarType("int" | "long"):
            numbers = convert_fitting(cells, _INTEGER, lambda fitting: fitting.cast(pa.int64()))
            return _within_type(numbers, kind)
        case ScalarType("float" | "double"):
            return convert_fitting(cells, _NUMBER, lambda fitting: fitting.cast(pa.float64()).cast(kind))
        case ScalarType("boolean"):
            is_true = pc.if_else(pc.is_valid(cells), pc.is_in(cells, _TRUE), None)
            return refuse_unless(Column(is_true, []), pc.or_(is_true, pc.is_in(cells, _FALSE)))
        case DecimalType(precision, scale):
            return convert_fitting(cells, rf"\A{plain_pattern(precision, scale)}\z", lambda fitting: fitting.cast(kind))
        case ScalarType("date"):
            return dates(cells)
        case ScalarType("timestamp") if reading.encoding.startswith("epoch"):
            fits = pc.match_substring_regex(cells, _EPOCH)
            column = epochs(pc.if_else(fits, cells, None).cast(pa.binary()), reading.encoding)
            others = pc.indices_nonzero(pc.invert(fits)).to_pylist()
            return Column(column.values, sorted({*column.refused, *others}))
        case ScalarType("timestamp"):
            return local_moments(cells, reading.zone) if reading.zone else moments(cells)
    return Column(pa.nulls(len(cells), kind), pc.indices_nonzero(pc.is_valid(cells)).to_pylist())


def _within_type(numbers: Column, kind: pa.DataType) -> Column:
    if kind == pa.int64():
        return numbers
    bound = 1 << kind.bit_width - 1
    fits = pc.and_(pc.greater_equal(numbers.values, -bound), pc.less(numbers.values, bound))
    within = refuse_unless(numbers, fits)
    return Column(within.values.cast(kind), within.refused)
