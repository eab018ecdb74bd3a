"""Why bytes are no JSON object, in words, from what msgspec says about them. Bytes are counted from 0."""

import re

import msgspec

_MALFORMED = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)")
_TRUNCATED = "Input data was truncated"
_NOT_JSON = re.compile(rb"-?(?:NaN|Infinity)")
_MARKS = {b"\xef\xbb\xbf": "", b"\xff\xfe": " of UTF-16", b"\xfe\xff": " of UTF-16"}
_KINDS = {ord("["): "an array", ord('"'): "a text", ord("t"): "true", ord("f"): "false", ord("n"): "null"}

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def is_truncated(fault: Exception) -> bool:
    """Whether msgspec met the end of the bytes too early."""
    return str(fault).startswith(_TRUNCATED)


def is_malformed(fault: Exception) -> bool:
    """Whether msgspec found no JSON, or not all of it. It also says so of half a surrogate pair."""
    return isinstance(fault, msgspec.DecodeError) and not isinstance(fault, msgspec.ValidationError)


def replace_half_pairs(value: bytes) -> bytes:
    """``value`` with U+FFFD in place of each half of a surrogate pair. No other byte moves."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], value)


def where(fault: Exception) -> int | None:
    """The byte at which msgspec found the fault; None if it does not say so, or the fault is no malformed JSON."""
    found = _MALFORMED.fullmatch(str(fault)) if is_malformed(fault) else None
    return int(found[2]) if found else None


def no_object(value: bytes) -> str | None:
    """Why ``value`` is another thing than one object, by its first bytes. None if it begins like one."""
    for mark, kind in _MARKS.items():
        if value.startswith(mark):
            return f"begins with a byte order mark{kind}, allowed is a JSON object in UTF-8 alone"
    content = value.lstrip(b" \t\n\r")
    if not content:
        return "not exactly one JSON object: got white space alone"
    kind = _KINDS.get(content[0], "a number" if content[0] in b"-0123456789" else "")
    is_value = kind and _begins_with_value(content)
    return f"not exactly one JSON object: got {kind}" if is_value else None


def _begins_with_value(content: bytes) -> bool:
    word = re.match(rb"[a-z]+", content)
    return word is None or word[0] in (b"true", b"false", b"null")


def describe(value: bytes, fault: Exception) -> str:
    """The reason for ``fault``, which msgspec raised for ``value``, if no declared field is the cause."""
    if (other := no_object(value)) is not None:
        return other
    found = _MALFORMED.fullmatch(str(fault))
    if found is None:
        if is_truncated(fault):
            return f"invalid JSON: the object does not end, at byte {len(value)}"
        return f"not a JSON object of the declared fields: {fault}"
    words, place = found[1], int(found[2])
    if words.startswith("trailing characters"):
        # Here, msgspec names the byte after the one that it means.
        return f"not exactly one JSON object: got more after its end, at byte {place - 1}"
    # msgspec is at the sign's end, or at the first letter.
    if word := _NOT_JSON.match(value, max(place - 1, 0)) or _NOT_JSON.match(value, place):
        return f"invalid JSON: got {word[0].decode()}, which is no JSON value, at byte {word.start()}"
    return f"invalid JSON: {words} at byte {place}"
