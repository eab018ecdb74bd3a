"""The limit of nesting, which depends on the record alone.

The recursion limit of Python, and how deep its caller is, decide nothing.
"""

import re
from itertools import accumulate

DEEPEST = 500
"""The number of levels of objects and arrays within each other that a record may have. The record itself is one."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = bytes.maketrans(b"[{]}", b"\x01\x01\x00\x00")


def is_too_deep(value: bytes) -> bool:
    """Whether ``value`` has more than DEEPEST levels."""
    if value.count(b"[") + value.count(b"{") <= DEEPEST:
        return False
    steps = _STRING.sub(b"", value).translate(_OPENING, _NO_BRACKETS)
    # The depth after n brackets is the number of opening ones less that of closing ones.
    return any(2 * opened - read > DEEPEST for read, opened in enumerate(accumulate(steps), 1))


def beginning(value: bytes) -> bytes:
    """The beginning of ``value``, which is too deep, up to where the first level too many begins."""
    depth = 0
    # Each text is one match, so brackets in it do not count.
    for token in re.finditer(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', value, re.DOTALL):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        if depth > DEEPEST:
            return value[: token.start()]
    return value
