"""Whether the keys of records are of the type that their source declares."""

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.validation.reasons import Reasons

_NUMBER_BYTES = {"int": 4, "long": 8}
_NUMBERS = {"int": pa.int32(), "long": pa.int64()}


def find_undecodable(keys: pa.Array, key_type: str) -> pa.Array:
    """Why each of ``keys`` (binary) is not of a source's ``key_type``, in words. Null if it is, or if it is null."""
    reasons = Reasons(keys.is_valid())
    reject_undecodable(keys, key_type, reasons)
    return reasons.to_arrow()


def read_keys(keys: pa.Array, key_type: str) -> pa.Array:
    """``keys`` (binary) as values of ``key_type``. Null where one is null, or not of this type."""
    fits = find_undecodable(keys, key_type).is_null().to_numpy(zero_copy_only=False)
    there = pc.if_else(pa.array(fits), keys, pa.scalar(None, keys.type))
    match key_type:
        case "binary":
            return there
        case "string":
            return there.cast(pa.string())
        case number:
            values = [None if key is None else int.from_bytes(key, "big", signed=True) for key in there.to_pylist()]
            return pa.array(values, _NUMBERS[number])


def reject_undecodable(keys: pa.Array, key_type: str, reasons: Reasons) -> None:
    """Reject the rows whose key (binary) is not of the ``key_type`` of their source."""
    match key_type:
        case "binary":
            return
        case "string":
            reasons.reject(_is_no_text(keys), "key: got invalid UTF-8, want string")
        case number:
            size = _NUMBER_BYTES[number]
            lengths = pc.binary_length(keys)
            reasons.reject(
                pc.not_equal(lengths, size),
                lambda row: f"key: got {lengths[row]} bytes, want the {size} of a big-endian {number}",
            )


def _is_no_text(keys: pa.Array) -> pa.Array:
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key is not None and not _is_utf8(key) for key in keys.to_pylist()], pa.bool_())
    return pa.repeat(pa.scalar(False), len(keys))


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
