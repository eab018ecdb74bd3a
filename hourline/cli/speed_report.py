"""What ``speed`` says of the speed layer that it runs."""

from collections.abc import Mapping
from pathlib import Path

from hourline.cli.output import note, say
from hourline_core.errors import BrokerError, RegistryError, TopicReplacedError
from hourline_core.ledger.progress_rows import Gap
from hourline_core.model import Source
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.background import announce
from hourline_core.runtime.file_lock import HeldLock
from hourline_core.runtime.kafka_absence import KafkaAbsence
from speed_layer.commit.committer import Finished
from speed_layer.observer import Observer
from speed_layer.recovery.lost_records import explain_gaps
from speed_layer.state import State


class SpeedReport(Observer):
    """Says what happens, and keeps the ``lease``. ``ready_file`` gets the address of ``kafka`` once the speed layer is
    ready, and again when the workspace was deleted.
    """

    def __init__(self, lease: HeldLock, kafka: str, ready_file: Path | None) -> None:
        self._lease, self._kafka, self._ready_file = lease, kafka, ready_file

    def changed(self, state: State, before: State) -> None:
        if before is State.STARTING and state is State.RUNNING:
            note("ready; Ctrl-C stops")
            self._announce()

    def heartbeat(self) -> None:
        if self._lease.renew():
            self._announce()

    def finished(self, done: Finished) -> None:
        counts = (
            (done.already_counted, "read before"),
            (done.rejected, "rejected"),
            (done.duplicates, "duplicate"),
            (done.not_taken, "not taken"),
            (done.late, "late"),
            (done.quarantined, "in quarantine"),
        )
        parts = [f"{done.records:,} records", *(f"{count:,} {what}" for count, what in counts if count)]
        say(f"{wall_clock():%H:%M:%S} {done.source} #{done.sequence}: {', '.join(parts)} in {done.seconds:.2f} s")

    def kafka_absent(self, absence: KafkaAbsence) -> None:
        if absence.until:
            seconds = (absence.until - absence.since).total_seconds()
            _note_now(f"Kafka is back after {seconds:,.0f} s; the speed layer goes on")
        else:
            _note_now(f"{absence.reason}; nothing is lost, and the speed layer goes on by itself when Kafka is back")

    def retries_after(self, failure: BrokerError, seconds: int) -> None:
        _note_now(f"{failure}; the speed layer tries again by itself in {seconds} s")

    def topic_replaced(self, why: TopicReplacedError) -> None:
        _note_now(str(why))

    def topic_is_back(self, topic: str) -> None:
        _note_now(f"topic '{topic}' is there again; the speed layer reads it from its beginning")

    def registry_absent(self, failure: RegistryError) -> None:
        _note_now(
            f"{failure}; nothing is lost, and source '{failure.source}' goes on by itself when the registry answers"
        )

    def registry_is_back(self, source: str) -> None:
        _note_now(f"the schema registry answers again; source '{source}' goes on")

    def accepts_loss(self, source: Source, gaps: Mapping[str, tuple[Gap, ...]]) -> None:
        note(f"going on without what is gone: {explain_gaps(source, gaps)}")

    def _announce(self) -> None:
        if self._ready_file:
            announce(self._ready_file, self._kafka)


def _note_now(text: str) -> None:
    note(f"{wall_clock():%H:%M:%S} {text}")
