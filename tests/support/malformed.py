"""Records that are damaged in each place, the same ones each time."""

import re
from collections.abc import Iterator

NO_UTF8 = (b"\xff", b"\xc3", b"\xed\xa0\x80")
"""Bytes that are no text, whatever text is around them. The first of each is the one at fault."""

_TEXT = re.compile(
    rb"(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
)
"""What Unicode's table 3-7 of well-formed UTF-8 has."""


def end_of_text(written: bytes) -> int:
    """The number of bytes that are a text in UTF-8, at the beginning of ``written``."""
    found = _TEXT.match(written)
    return found.end() if found else 0


def cut(written: bytes) -> list[bytes]:
    """Each beginning of ``written`` that is neither empty nor whole."""
    return [written[:end] for end in range(1, len(written))]


def flipped(written: bytes, bits: range = range(8)) -> list[bytes]:
    """``written`` with each of the ``bits`` of each of its bytes flipped, one at a time."""
    return [replaced(written, place, bytes([byte ^ 1 << bit])) for place, byte in enumerate(written) for bit in bits]


def replaced(written: bytes, place: int, by: bytes) -> bytes:
    """``written`` with one byte replaced."""
    return written[:place] + by + written[place + 1 :]


def with_no_utf8(written: bytes) -> Iterator[tuple[int, bytes]]:
    """``written``, a text, with bytes that are none at each place between two characters, and that place."""
    for place in range(len(written) + 1):
        if written[place : place + 1] not in [bytes([byte]) for byte in range(0x80, 0xC0)]:
            for bytes_ in NO_UTF8:
                yield place, written[:place] + bytes_ + written[place:]
