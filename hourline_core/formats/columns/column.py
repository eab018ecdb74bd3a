"""What converting the values of a column gives, and steps that conversions share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Column(NamedTuple):
    """An Arrow column, and the places of the values that were refused. There, the column has null."""

    values: pa.Array
    refused: list[int]


def convert_fitting(
    written: pa.Array, pattern: str, convert: Callable[[pa.Array], pa.Array], one: Callable[[Any], Any] | None = None
) -> Column:
    """``convert`` applied to the texts that match ``pattern``, all at once.

    The other ones are refused, or converted by ``one``, value by value. It gives None for what it refuses.
    """
    fits = pc.match_substring_regex(written, pattern)
    if pc.all(fits).as_py() is not False:
        return Column(convert(written), [])
    others = pc.indices_nonzero(pc.invert(fits)).to_pylist()
    converted = convert(pc.if_else(fits, written, None))
    if one is None:
        return Column(converted, others)
    found = [one(written[place].as_py()) for place in others]
    mask = pc.fill_null(pc.invert(fits), False)
    filled = pc.replace_with_mask(converted, mask, pa.array(found, converted.type))
    return Column(filled, [place for place, value in zip(others, found, strict=True) if value is None])


def refuse_unless(column: Column, holds: pa.Array) -> Column:
    """``column`` with null in place of the values for which ``holds`` is false."""
    if pc.all(holds).as_py() is not False:
        return column
    more = pc.indices_nonzero(pc.invert(holds)).to_pylist()
    return Column(pc.if_else(holds, column.values, None), sorted({*column.refused, *more}))
