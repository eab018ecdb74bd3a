"""The records that an answer does not count yet, since no finished micro-batch has read them."""

from dataclasses import dataclass

from hourline_core.errors import UsageError
from hourline_core.model import Source
from hourline_core.runtime.lease import lease_holder
from serving_layer.connection import Connection
from serving_layer.reports.arrived_files import find_arrived_files, offsets_of_files, readings_of_files
from serving_layer.reports.kafka_offsets import Offsets, SourceOffsets, Unknown
from serving_layer.reports.unread import count_lag, find_read_offsets, offsets_of_known


@dataclass(frozen=True)
class WaitingRecords:
    """The records of one source that have not been read by a finished micro-batch."""

    source: str
    count: int | None
    """Their number. None: it is not known."""
    unknown: str | None
    """Why it is not known. None: it is."""
    has_begun: bool
    """Whether a micro-batch of the source has finished."""
    is_running: bool
    """Whether the speed layer runs."""
    noun: str = "record"
    """What is counted."""

    def in_words(self) -> str:
        """One sentence, with what to do."""
        if self.has_begun and self.count == 0:
            sent = "sent records" if self.noun == "record" else "files that can be read"
            return f"all {sent} of '{self.source}' are counted"
        if self.has_begun and self.unknown:
            return f"how many {self.noun}s of '{self.source}' are not counted yet is not known: {self.unknown}"
        number = f"{self.noun}s" if self.count is None else f"{self.count:,} {self.noun}(s)"
        waiting = f"{number} of '{self.source}' have not been counted yet"
        if self.count == 0:
            waiting = f"no {self.noun} of '{self.source}' has come yet"
        if not self.is_running:
            return f"{waiting}: the speed layer is not running; `hourline up` starts it"
        if self.count == 0:
            return waiting
        begun = "a micro-batch is" if self.has_begun else "the first micro-batch is still"
        return f"{waiting}: {begun} under way; ask again in a moment"


def find_waiting(connection: Connection, query: str, offsets: Offsets) -> list[WaitingRecords]:
    """What each source that ``query`` names, one SELECT, has not counted by the connection's snapshot. ``offsets`` are
    those in Kafka. Raises UsageError if the connection shows an earlier time.
    """
    if connection.is_past:
        raise UsageError("what is not counted yet is about the newest result, and this is an earlier one (as_of)")
    project = connection.project
    is_running = lease_holder(project.workspace, "speed") is not None
    found = []
    for name in connection.sources(query):
        sequence = read.sequence if (read := connection.snapshot.progress.get(name)) else 0
        count = _count_waiting(connection, project.sources[name], sequence, offsets[name])
        known, unknown = (None, count.reason) if isinstance(count, Unknown) else (count, None)
        noun = "file" if project.sources[name].reads_files else "record"
        found.append(WaitingRecords(name, known, unknown, sequence > 0, is_running, noun))
    return found


def _count_waiting(
    connection: Connection, source: Source, sequence: int, offsets: SourceOffsets | Unknown
) -> int | Unknown:
    if source.reads_files:
        files = find_arrived_files(connection, [source])[source.name]
        ends = offsets_of_files(source, files)
        return ends if isinstance(ends, Unknown) else count_lag(readings_of_files(source, files).readings, ends)
    if isinstance(offsets, Unknown):
        return offsets
    if not sequence:
        return count_lag({}, offsets.topics)
    read = find_read_offsets(connection, [source])[source.name]
    known = offsets_of_known(source, read, offsets)
    return known if isinstance(known, Unknown) else count_lag(read.readings, known)
