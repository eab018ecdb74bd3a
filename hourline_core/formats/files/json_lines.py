"""JSON lines: one record per line, sent unchanged. The speed layer validates them, so a line that is no JSON is sent,
too.
"""

import codecs
from collections.abc import Iterator
from typing import IO

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile

_CHUNK = 1 << 20


class JsonLines:
    """The lines of a file, without line ends. An empty line is an empty payload.

    Raises UsageError when the file cannot be read to its end, or is a JSON array.
    """

    columns: list[str] | None = None
    """None, since they are not known before all lines are read."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.total = self._count()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with self._file.open() as stream:
            _skip_mark(stream)
            for number, line in enumerate(stream, start=1):
                yield number, line.rstrip(b"\r\n")

    def _count(self) -> int:
        lines, last = 0, b""
        with self._file.open() as stream:
            if _skip_mark(stream) == b"[" and self._file.unpacked_ending == ".json":
                raise UsageError(
                    f"{self._file} is one JSON array, not one JSON object per line; convert it, as with jq -c '.[]'"
                )
            while chunk := stream.read(_CHUNK):
                lines += chunk.count(b"\n")
                last = chunk
        return lines + (not last.endswith(b"\n") if last else 0)


def _skip_mark(stream: IO[bytes]) -> bytes:
    """Skip a byte order mark at the start. Returns the first byte after it, which is still to be read."""
    start = stream.read(len(codecs.BOM_UTF8))
    stream.seek(len(start) if start == codecs.BOM_UTF8 else 0)
    first = stream.read(1)
    stream.seek(stream.tell() - len(first))
    return first
