"""What an empty answer may be waiting for: records that no finished micro-batch has read."""

from dataclasses import dataclass

from hourline_core.model import Source
from hourline_core.runtime.lease import lease_holder
from serving_layer.connection import Connection
from serving_layer.reports.kafka_offsets import Offsets, SourceOffsets, Unknown
from serving_layer.reports.unread import count_lag, find_readings, offsets_of_known


@dataclass(frozen=True)
class WaitingRecords:
    """The records of one source that have not been read by a finished micro-batch."""

    source: str
    count: int | None
    """Their number. None: it is not known."""
    has_begun: bool
    """Whether a micro-batch of the source has finished."""
    is_running: bool
    """Whether the speed layer runs."""

    def in_words(self) -> str:
        """One sentence, with what to do."""
        number = "records" if self.count is None else f"{self.count:,} record(s)"
        waiting = f"{number} of '{self.source}' have not been counted yet"
        if self.count == 0:
            waiting = f"no record of '{self.source}' has come yet"
        if not self.is_running:
            return f"{waiting}: the speed layer is not running; `hourline up` starts it"
        if self.count == 0:
            return waiting
        begun = "a micro-batch is" if self.has_begun else "the first micro-batch is still"
        return f"{waiting}: {begun} under way; ask again in a moment"


def find_waiting(connection: Connection, query: str, offsets: Offsets) -> list[WaitingRecords]:
    """What the sources that ``query`` names, one SELECT, have not counted by the connection's snapshot. ``offsets`` are
    those in Kafka. A source that has begun, and of which no record is known to wait, is left out.
    """
    project = connection.project
    is_running = lease_holder(project.workspace, "speed") is not None
    found = []
    for name in connection.sources(query):
        sequence = known.sequence if (known := connection.snapshot.progress.get(name)) else 0
        count = _count_waiting(connection, project.sources[name], sequence, offsets[name])
        if count or not sequence:
            found.append(WaitingRecords(name, count, sequence > 0, is_running))
    return found


def _count_waiting(
    connection: Connection, source: Source, sequence: int, offsets: SourceOffsets | Unknown
) -> int | None:
    if isinstance(offsets, Unknown):
        return None
    if not sequence:
        return count_lag({}, offsets.topics)
    readings = find_readings(connection, source, sequence)
    known = offsets_of_known(connection, source, sequence, readings, offsets)
    return None if isinstance(known, Unknown) else count_lag(readings, known)
