"""JSON lines: one record per line, sent unchanged. The speed layer validates them, so a line that is no JSON is sent,
too.
"""

import codecs
from collections.abc import Iterator
from typing import IO

import msgspec

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.spread_object import SpreadObject
from hourline_core.formats.files.text_encoding import refuse_mark, skip_mark

_PEEKED = 1 << 16


class JsonLines:
    """The lines of a file, without line ends. An empty line is an empty payload.

    The constructor reads the whole file. Raises UsageError, with the line, when the file cannot be read to its end, is
    one JSON array, UTF-16 or UTF-32, has an object that is spread over lines, or a byte order mark that is not at its
    start. Any other line is a record of its own, whatever is in it.
    """

    columns: list[str] | None = None
    """None, since they are not known before all lines are read."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.total = self._count()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with self._file.open() as stream:
            skip_mark(stream, self._file)
            for number, line in enumerate(stream, start=1):
                yield number, line.rstrip(b"\r\n")

    def _count(self) -> int:
        number, spread = 0, SpreadObject()
        with self._file.open() as stream:
            skip_mark(stream, self._file)
            self._refuse_array(stream)
            for number, line in enumerate(stream, start=1):
                if codecs.BOM_UTF8 in line and _is_joined(line):
                    raise refuse_mark(self._file, number)
                if (spread.is_open or not line.endswith((b"}\n", b"}\r\n"))) and spread.ends_with(number, line):
                    raise UsageError(
                        f"{self._file}, line {spread.first}: got a JSON object that goes on to line {number}, "
                        "allowed is one object a line; convert the file, as with jq -c ."
                    )
        return number

    def _refuse_array(self, stream: IO[bytes]) -> None:
        # Before the first line is read, since a whole array may be on it, and not fit into memory.
        start = stream.tell()
        peeked = stream.read(_PEEKED)
        stream.seek(start)
        text = peeked.lstrip()
        if text.startswith(b"["):
            line = peeked[: len(peeked) - len(text)].count(b"\n") + 1
            raise UsageError(
                f"{self._file}, line {line}: got a JSON array, allowed is one JSON object a line; "
                "if the file holds one array of objects, convert it, as with jq -c '.[]'"
            )


def _is_joined(line: bytes) -> bool:
    """Whether ``line`` has the byte order mark of a file that was appended to another one."""
    if line.startswith(codecs.BOM_UTF8):
        return True
    before, _, _ = line.partition(codecs.BOM_UTF8)
    try:
        msgspec.json.decode(before, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False  # it stands within a text, where it is a character
    return True
