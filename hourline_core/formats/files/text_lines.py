"""Lines of text: each is a record of the source's own format, unchanged."""

from collections.abc import Iterator

from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.text_encoding import skip_mark


class TextLines:
    """The lines of a file, without line ends. An empty line is an empty payload.

    The constructor reads the whole file. Raises UsageError when the file cannot be read to its end, and when it is
    UTF-16 or UTF-32. Whatever else is in a line, it is a record.
    """

    columns: list[str] | None = None
    """None: a line has no columns but those that its source reads."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.total = sum(1 for _ in self)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with self._file.open() as stream:
            skip_mark(stream, self._file)
            for number, line in enumerate(stream, start=1):
                yield number, line.rstrip(b"\r\n")
