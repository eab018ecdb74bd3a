"""A key of another type than declared is told from a good one."""

import pyarrow as pa
import pytest

from hourline_core.validation.keys import find_undecodable


@pytest.mark.parametrize("key_type", ["binary", "string", "int", "long"])
def test_each_key_is_judged_alone(key_type: str) -> None:
    keys = [None, b"", b"key", b"\xff", b"\xed\xa0\x80", b"\0" * 4, b"\xff" * 8]
    sizes = {"int": [4], "long": [8]}.get(key_type, range(9))
    want = [key is None or (len(key) in sizes and (key_type != "string" or is_text(key))) for key in keys]
    reasons = find_undecodable(pa.array(keys, pa.binary()), key_type).to_pylist()
    assert [reason is None for reason in reasons] == want
    assert reasons == find_undecodable(pa.array([b"x", *keys], pa.binary())[1:], key_type).to_pylist()


def test_the_reason_says_what_was_got() -> None:
    keys = pa.array([b"key", b"\xff" * 8], pa.binary())
    assert find_undecodable(keys, "string").to_pylist() == [None, "key: got invalid UTF-8, want string"]
    assert find_undecodable(keys, "int")[0].as_py() == "key: got 3 bytes, want the 4 of a big-endian int"
    assert find_undecodable(keys, "long")[0].as_py() == "key: got 3 bytes, want the 8 of a big-endian long"


def is_text(key: bytes) -> bool:
    return key.decode(errors="replace").encode() == key
