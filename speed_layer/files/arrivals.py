"""What arrives at a source that reads files: the next one to read, and those that are not read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hourline_core.formats.files.data_file import Format
from hourline_core.formats.files.reading import Rows
from hourline_core.runtime.unread_files import UnreadFiles


@dataclass(frozen=True)
class ArrivedFile:
    """A file that is to be read."""

    name: str
    topic_id: str
    rows: Rows
    format: Format
    begun: int
    """The number of its rows that were read before."""
    is_unchanged: Callable[[], bool]
    """Whether it is still the one whose ``rows`` these are."""


class Arrivals(Protocol):
    """The files that arrive at a source, in their order."""

    @property
    def unread(self) -> UnreadFiles:
        """What was not read at the last look, whose names are those of ``ArrivedFile``."""

    def is_drained(self) -> bool:
        """Whether all that was there at the first look was read, or is held."""

    def next(self) -> ArrivedFile | None:
        """The next file to read. None: there is none, as far as the last look has shown."""

    def begin(self, file: ArrivedFile) -> None:
        """Note that rows of the next file are going to be read, so that another one is the next."""

    def note_read(self, file: ArrivedFile, end: int) -> None:
        """Note that the rows of the file up to ``end`` were read, and are committed."""

    def hold(self, file: ArrivedFile, reason: str) -> None:
        """Note why no more of the file is read."""
