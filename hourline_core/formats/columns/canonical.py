"""The canonical text of any JSON value."""

import json
import re

import msgspec

_READ = msgspec.json.Decoder(float_hook=msgspec.Raw)
_WRITE = msgspec.json.Encoder(order="sorted")
_READ_EACH_NUMBER = json.JSONDecoder(parse_int=msgspec.Raw, parse_float=msgspec.Raw)
_MAY_CHANGE = re.compile(rb"-0|[0-9]{20}")
"""Integers that msgspec may write in another way than they were: ``-0``, and long ones."""


def canonical_text(written: bytes) -> str:
    """The value as JSON without white space, in which the names of each object are sorted by their code points.

    Of a name that is there several times, the last value counts. Numbers stay as they were written. Texts have as few
    escapes as can be. Raises ValueError (``msgspec.DecodeError`` is one) for half a surrogate pair and invalid UTF-8.
    """
    value = _READ.decode(written) if not _MAY_CHANGE.search(written) else _read_each_number(written)
    return _WRITE.encode(value).decode()


def _read_each_number(written: bytes) -> object:
    return _READ_EACH_NUMBER.decode(written.decode())
