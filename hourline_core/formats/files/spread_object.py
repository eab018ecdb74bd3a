"""Finds a JSON object that is spread over several lines, as pretty-printed JSON is."""

import re

import msgspec

# A text that is not closed reaches to the end of its line, so that the line is looked at once.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]]')
_OPENING = {ord("{"): ord("}"), ord("["): ord("]")}
_LARGEST = 1 << 20


class SpreadObject:
    """Follows one object over the lines of a file. It looks at each line once, and gives up early where no object can
    go on.
    """

    def __init__(self) -> None:
        self.first = 0
        """The line on which the object begins."""
        self._lines: list[bytes] = []
        self._size = 0
        self._closing = bytearray()
        """The brackets that are still to come, the innermost last."""

    @property
    def is_open(self) -> bool:
        """Whether an object has begun, and may still end on a later line."""
        return bool(self._closing)

    def ends_with(self, number: int, line: bytes) -> bool:
        """Whether an object that began on an earlier line ends with the line ``number``, and is valid JSON of at most
        1,048,576 bytes.
        """
        text = line.strip()
        if self.is_open and not (text and self._can_follow(text)):
            if text or self._size > _LARGEST:
                self._closing.clear()
            else:
                return False  # a blank line within the object
        if not self.is_open:
            self.first, self._lines, self._size = number, [], 0
            if not text.startswith(b"{") or text.endswith(b"}"):
                return False
        self._lines.append(text)
        self._size += len(text) + 1
        if self._size > _LARGEST or not self._follow_brackets(text):
            self._closing.clear()
            return False
        return not self._closing and len(self._lines) > 1 and self._is_valid()

    def _can_follow(self, text: bytes) -> bool:
        """Whether JSON allows the first character of ``text`` after the last one of the line before."""
        before, after = self._lines[-1][-1:], text[:1]
        in_object = self._closing[-1] == ord("}")
        if before in (b"{", b","):
            return after in (b'"', b"}") if in_object else after not in (b",", b":", b"}")
        if before in (b"[", b":"):
            return after not in (b",", b":", b"}")
        return after in (b",", b":", b"}", b"]")

    def _follow_brackets(self, text: bytes) -> bool:
        """Note the brackets of ``text``. Returns False if they do not match, or something follows the object."""
        for found in _STRING_OR_BRACKET.finditer(text):
            bracket = found[0][0]
            if bracket in _OPENING:
                self._closing.append(_OPENING[bracket])
            elif bracket != ord('"') and (not self._closing or self._closing.pop() != bracket):
                return False
            if not self._closing and found.end() != len(text):
                return False
        return True

    def _is_valid(self) -> bool:
        try:
            msgspec.json.decode(b"\n".join(self._lines), type=msgspec.Raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False
        return True
