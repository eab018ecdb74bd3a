"""Decoded values become Arrow columns, at every depth in the same way. A value that is refused harms no other one."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.arrow_types import arrow_type
from hourline_core.formats.columns.canonical import canonical_text
from hourline_core.formats.columns.column import Column, convert_fitting, refuse_unless
from hourline_core.formats.columns.decimals import decimal_of, plain_pattern
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.recursion import despite_depth
from hourline_core.formats.columns.structs import keeps_bytes
from hourline_core.formats.columns.times import dates, epochs, local_moments, moments
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType


def column_of(reading: Reading, values: Sequence[Any]) -> Column:
    """The column of ``values``, which are of the types that ``structs`` says, and numbers if ``reading`` is numeric.
    None stands for null.
    """
    if keeps_bytes(reading):
        return _column_of_bytes(reading, [_written(value) for value in values])
    match reading.tree:
        case StructType():
            return _structs(reading, values)
        case ArrayType():
            return _lists(reading, values)
        case MapType():
            return _maps(reading, values)
    return _scalars(reading, values)


def _scalars(reading: Reading, values: Sequence[Any]) -> Column:
    match reading.tree:
        case ScalarType("float"):
            numbers = pa.array(values, pa.float32())
            return refuse_unless(Column(numbers, []), pc.is_finite(numbers))
        case ScalarType("date" | "timestamp") if reading.numeric:
            return Column(pa.array(values, arrow_type(reading.tree)), [])
        case DecimalType():
            return Column(_unscaled(values, arrow_type(reading.tree)), [])
        case ScalarType("date"):
            return dates(pa.array(values, pa.string()))
        case ScalarType("timestamp"):
            texts = pa.array(values, pa.string())
            return local_moments(texts, reading.zone) if reading.zone else moments(texts)
    return Column(pa.array(values, arrow_type(reading.tree)), [])


def _unscaled(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """The decimals of ``kind`` whose digits are ``values``."""
    words = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    is_valid = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(kind, len(values), [is_valid.buffers()[1], pa.py_buffer(words)])


def _written(value: Any) -> bytes | None:
    """The bytes of a value; None for a missing one and for null."""
    if value is None:
        return None
    written = bytes(value)
    return None if written == b"null" else written


def _column_of_bytes(reading: Reading, written: list[bytes | None]) -> Column:
    match reading.tree:
        case DecimalType(precision, scale):
            return _decimals(pa.array(written, pa.binary()), precision, scale, rounds=reading.rounds)
        case ScalarType("timestamp"):
            return epochs(pa.array(written, pa.binary()), reading.encoding)
    texts: list[str | None] = []
    refused = []
    for place, one in enumerate(written):
        try:
            texts.append(None if one is None else despite_depth(canonical_text, one))
        except ValueError:
            texts.append(None)
            refused.append(place)
    return Column(pa.array(texts, pa.string()), refused)


def _decimals(written: pa.Array, precision: int, scale: int, *, rounds: bool) -> Column:
    kind = pa.decimal128(precision, scale)

    def convert(fitting: pa.Array) -> pa.Array:
        return pc.ascii_trim(fitting.cast(pa.string()), characters='"').cast(kind)

    # These are held exactly whatever the digits are. Leading zeros, exponents and more digits are rare.
    fast = rf'\A"?{plain_pattern(precision, scale)}"?\z'
    return convert_fitting(written, fast, convert, lambda one: decimal_of(one, precision, scale, rounds=rounds))


def _structs(reading: Reading, values: Sequence[Any]) -> Column:
    absent = [value is None for value in values]
    refused: set[int] = set()
    children = []
    for place, (_, part) in enumerate(reading.parts):
        member = attrgetter(f"m{place}")
        child = column_of(part, [None if value is None else member(value) for value in values])
        children.append(child.values)
        refused.update(child.refused)
    fields = list(arrow_type(reading.tree))
    array = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(absent, pa.bool_()))
    return Column(array, sorted(refused))


def _lists(reading: Reading, values: Sequence[list[Any] | None]) -> Column:
    offsets, absent = _offsets(values)
    child = column_of(reading.parts[0][1], list(chain.from_iterable(value for value in values if value is not None)))
    array = pa.ListArray.from_arrays(_int32(offsets), child.values, type=arrow_type(reading.tree), mask=absent)
    return Column(array, _owners(offsets, child.refused))


def _maps(reading: Reading, values: Sequence[dict[str, Any] | None]) -> Column:
    offsets, absent = _offsets(values)
    present = [value for value in values if value is not None]
    child = column_of(reading.parts[0][1], list(chain.from_iterable(value.values() for value in present)))
    keys = pa.array(list(chain.from_iterable(present)), pa.string())
    array = pa.MapArray.from_arrays(_int32(offsets), keys, child.values, type=arrow_type(reading.tree), mask=absent)
    return Column(array, _owners(offsets, child.refused))


def _offsets(values: Sequence[list[Any] | dict[str, Any] | None]) -> tuple[list[int], pa.Array]:
    """Where the elements of each value begin, with the end of the last one, and whether each value is null."""
    offsets = list(accumulate((len(value) if value else 0 for value in values), initial=0))
    return offsets, pa.array([value is None for value in values], pa.bool_())


def _int32(offsets: list[int]) -> pa.Array:
    return pa.array(offsets, pa.int32())


def _owners(offsets: list[int], elements: list[int]) -> list[int]:
    """The places of the values that ``elements`` belong to."""
    return sorted({bisect_right(offsets, element) - 1 for element in elements})
