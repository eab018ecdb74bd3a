"""Texts as JSON values."""

import json.encoder
from collections.abc import Callable

import msgspec

_LARGEST_VALUE = 1 << 24

quote: Callable[[str], str] = json.encoder.encode_basestring
"""Encodes a text as JSON, with quotes. Characters are not escaped where JSON does not need it."""


def value_or_text(text: str) -> str:
    """``text`` itself if it is exactly one JSON value of at most 16,777,216 characters, and otherwise the JSON text of
    it.
    """
    return text if len(text) <= _LARGEST_VALUE and _is_value(text) else quote(text)


def _is_value(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # surrogates stand for bytes that are no UTF-8
        return False
    return True
