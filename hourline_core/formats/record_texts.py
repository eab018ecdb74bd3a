"""The values of records that are text: UTF-8, with at most one line end behind it."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_LINE_END = r"(?:\r?\n|\r)\z"
_MAY_END = ("\n", "\r")


class RecordTexts(NamedTuple):
    """The texts of a number of records, in their order, without the line ends behind them."""

    texts: pa.Array
    """string. Null: the value is null or empty, or it is refused."""

    reasons: dict[int, str]
    """By its place, why a value is refused."""


def record_texts(values: pa.Array | pa.ChunkedArray) -> RecordTexts:
    """The texts of binary ``values``. No value makes it raise."""
    array = (values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values).cast(pa.binary())
    reasons: dict[int, str] = {}
    try:
        texts = array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array(
            [_decoded(value, place, reasons) for place, value in enumerate(array.to_pylist())], pa.string()
        )
    is_empty = pc.equal(pc.binary_length(texts), 0)
    if pc.any(is_empty).as_py():
        texts = pc.if_else(is_empty, None, texts)
    if any(pc.any(pc.ends_with(texts, end)).as_py() for end in _MAY_END):
        texts = pc.replace_substring_regex(texts, _LINE_END, "")
    return RecordTexts(texts, reasons)


def _decoded(value: bytes | None, place: int, reasons: dict[int, str]) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as fault:
        reasons[place] = f"invalid UTF-8 at byte {fault.start}"
        return None
