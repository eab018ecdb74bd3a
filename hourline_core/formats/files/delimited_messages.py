"""Messages of Protobuf behind each other, each with its length in front, as ``writeDelimitedTo`` and
``serialize_length_prefixed`` write them. https://protobuf.dev/programming-guides/techniques/#streaming
"""

from collections.abc import Iterator
from typing import IO

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile

_LARGEST = 1 << 30
"""The size of a message that is read."""
_LONGEST_LENGTH = 5
"""The maximum number of bytes of a length."""


class DelimitedMessages:
    """The messages of a file, as bytes, each with its number.

    The constructor reads the whole file. Raises UsageError when it cannot be read to its end, or does not end with the
    end of a message.
    """

    columns: list[str] | None = None
    """None: they are those of the source's message."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.total = sum(1 for _ in self)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        with self._file.open() as stream:
            while (length := self._length(stream, number := number + 1)) is not None:
                message = stream.read(length)
                if len(message) < length:
                    raise self._invalid(number, f"its length is {length:,} bytes, and {len(message):,} are left")
                yield number, message

    def _length(self, stream: IO[bytes], number: int) -> int | None:
        """The length that is next, as a varint. None: the file has ended."""
        length = 0
        for place in range(_LONGEST_LENGTH):
            byte = stream.read(1)
            if not byte:
                if place:
                    raise self._invalid(number, "the file ends in its length")
                return None
            length |= (byte[0] & 0x7F) << (7 * place)
            if byte[0] < 0x80:
                break
        else:
            raise self._invalid(number, f"its length has more than {_LONGEST_LENGTH} bytes")
        if length > _LARGEST:
            raise self._invalid(number, f"its length is {length:,} bytes, allowed are {_LARGEST:,}")
        return length

    def _invalid(self, number: int, why: str) -> UsageError:
        return UsageError(
            f"{self._file}: message {number}: {why}; allowed are messages of Protobuf, each with its length in front"
        )
