"""The files of an archive, by the hours and sequences that they hold. The log of the archive tells both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from hourline_core.storage.file_ranges import FileRange, file_ranges
from speed_layer.derived.decoding import DecodedAnew
from speed_layer.derived.read_events import Files, choose_files
from speed_layer.derived.spans import Span


@dataclass(frozen=True)
class ArchiveFiles:
    """The files of an archive."""

    by_hour: Sequence[FileRange]
    """Each file with its first and last hour."""
    sequences: Mapping[str, FileRange]
    """By path, the first and last sequence of a file."""
    old: frozenset[str]
    """The paths of those that may have events to decode anew."""

    @classmethod
    def of(cls, events: DeltaTable, anew: DecodedAnew | None) -> "ArchiveFiles":
        """The files of ``events``, of which ``anew`` says what is decoded anew."""
        if not events.file_uris():
            return cls((), {}, frozenset())
        sequences = {of.path: of for of in file_ranges(events, "sequence")}
        last_old = anew.up_to if anew else 0
        old = frozenset(path for path, of in sequences.items() if of.first <= last_old)
        return cls(file_ranges(events, "hour"), sequences, old)

    def choose(self, spans: Sequence[Span], after: int, up_to: int) -> Files:
        """Those that may have events of the hours in ``spans``, of the sequences above ``after``, up to ``up_to``."""
        read = self.sequences
        of_sequences = [of for of in self.by_hour if read[of.path].last > after and read[of.path].first <= up_to]
        return choose_files(of_sequences, spans, self.old)
