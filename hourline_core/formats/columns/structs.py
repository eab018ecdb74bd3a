"""The types that msgspec decodes a record into.

Texts of times and dates stay texts, and numbers whose digits matter stay bytes: ``columns`` converts them for a whole
batch at once.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from hourline_core.formats.columns.reading import Reading
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}
_SCALARS: dict[str, Any] = {
    "float": float,
    "double": float,
    "boolean": bool,
    **{
        kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
        for kind, bits in _INTEGER_BITS.items()
    },
}
"""What is no text."""


def keeps_bytes(reading: Reading) -> bool:
    """Whether a value of ``reading`` is kept as the bytes that were written."""
    if isinstance(reading.tree, ScalarType):
        is_epoch = reading.encoding in ("epoch_seconds", "epoch_milliseconds") and not reading.numeric
        return reading.tree.kind == "json" or is_epoch
    return isinstance(reading.tree, DecimalType) and not reading.numeric


def struct_of(members: Iterable[tuple[str, Reading]]) -> type[msgspec.Struct]:
    """A type whose attributes ``m0``, ``m1``, … are the members of a JSON object. An absent one is None."""
    named = {f"m{place}": member for place, member in enumerate(members)}
    return msgspec.defstruct(
        "Members",
        [(attribute, _type_of(reading), None) for attribute, (_, reading) in named.items()],
        rename={attribute: name for attribute, (name, _) in named.items()},
        # What JSON gives has no cycles.
        gc=False,
    )


def _type_of(reading: Reading) -> Any:
    if keeps_bytes(reading):
        return msgspec.Raw
    match reading.tree:
        case StructType():
            return struct_of(reading.parts) | None
        case ArrayType():
            return list[_type_of(reading.parts[0][1])] | None  # type: ignore[misc]
        case MapType():
            return dict[str, _type_of(reading.parts[0][1])] | None  # type: ignore[misc]
    return _SCALARS.get(str(reading.tree), str) | None
