"""Assures that what is read of Kafka continues what was read before: the same cluster, the same topics, the same logs.

Spark knows a topic by its name, and a record by its offset. So a topic that was deleted and recreated, and a log that
was cut off and has grown again, would bring other records at known places.

Kafka is asked after a micro-batch was read, and before anything of it is committed. A topic's id never comes back: if
it is the known one then, all records read before are of that topic. A log is cut off only by a new leader, whose epoch
is higher. So while the epoch is the known one, the log is. If it is another, the last records that were read are
compared with those in Kafka, by timestamp and checksum.
"""

import threading
import zlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from hourline_core.errors import BrokerError, HourlineError, SourceError, TopicReplacedError
from hourline_core.ledger.last_read import LastRead
from hourline_core.ledger.last_read import Partition as KnownPartition
from hourline_core.ledger.last_records import LastRecord, checksum_of
from hourline_core.ledger.open_progress import find_progress
from hourline_core.model import Project, Source
from hourline_core.model.topics import names_of
from hourline_core.runtime.kafka_records import KafkaRecord, Partition
from speed_layer.kafka.record_origin import TopicIds

LastRecords = Mapping[KnownPartition, LastRecord]
"""The last record that was read of each partition, by topic id and number."""


class AskedKafka(Protocol):
    """What is asked of a Kafka: see ``KafkaFacts``. All methods raise BrokerError."""

    bootstrap: str

    def cluster_id(self) -> str | None: ...
    def ids(self, topics: Collection[str]) -> dict[str, str | None]: ...
    def leader_epochs(self, partitions: Collection[Partition]) -> dict[Partition, int | None]: ...
    def records_at(self, offsets: Mapping[Partition, int]) -> dict[Partition, KafkaRecord]: ...
    def end(self, partition: Partition) -> int: ...


class Continuity:
    """Compares ``kafka`` with ``last_read``, what progress says of the Kafka that ``source`` was read from, and with
    what is read since. All methods raise BrokerError if Kafka does not answer; then nothing is known.
    """

    def __init__(self, source: Source, kafka: AskedKafka, last_read: LastRead) -> None:
        self._source = source
        self._kafka = kafka
        self._last_read = last_read
        self._last = dict(last_read.records)
        self._epochs: dict[Partition, int | None] = {}
        self._one_at_a_time = threading.Lock()
        """Held while Kafka is compared: what one thread has compared, another one must not take for compared before."""
        self.cluster: str | None = None
        self.topic_ids = TopicIds({}, self._meet)

    def refuse_other_cluster(self) -> None:
        """Look up which cluster it is. Raises SourceError if another one was read before."""
        self.cluster, known = self._kafka.cluster_id(), self._last_read.cluster
        if known and self.cluster and known != self.cluster:
            raise SourceError(
                f"source '{self._source.name}' was read from the Kafka cluster {known}, and the one at "
                f"{self._kafka.bootstrap} is {self.cluster}; what was read is archived and stays; correct "
                "kafka.bootstrap or bring the other Kafka's data back, or read this one's topics from their beginning: "
                f"`hourline reset {self._source.name}`"
            )

    def refuse_missing_topics(self) -> None:
        """Raise TopicReplacedError if a topic that the source names was read, and is deleted; unless ``on_recreate``
        goes on.
        """
        known = self._last_read.topic_ids.keys() & set(names_of(self._source.topic))
        if known and self._source.on_recreate == "stop":
            self._refuse_replaced(self._kafka.ids(known), self._last_read.topic_ids)

    def begin(self, topic_ids: Mapping[str, str], partitions: Collection[Partition]) -> None:
        """Begin a stream of the topics ``topic_ids`` with these partitions. Raises SourceError if one of their
        logs is not the one that was read, and TopicReplacedError if a topic was recreated; unless ``on_recreate`` goes
        on.
        """
        if self._source.on_recreate == "stop":
            self._refuse_replaced(topic_ids, self._last_read.topic_ids)
        self.topic_ids.update(topic_ids)
        self._epochs = self._kafka.leader_epochs(partitions)
        self._compare(self._of_known(self._epochs))

    def confirm(self, last: LastRecords, partitions: Collection[KnownPartition] = ()) -> None:
        """Confirm what was read, and is committed now; ``last`` are its last records. ``partitions`` may be others, of
        which offsets without a record were read. Raises TopicReplacedError and SourceError if it does not continue what
        was read before.
        """
        # A copy: the micro-batch that is read meanwhile may bring a new topic.
        names = {topic_id: name for name, topic_id in dict(self.topic_ids).items()}
        here = {(names[topic_id], number): last.get((topic_id, number)) for topic_id, number in {*last, *partitions}}
        with self._one_at_a_time:
            self._refuse_replaced(self._kafka.ids({topic for topic, _ in here}), self.topic_ids)
            # A new partition has no known epoch. The id of a new topic was asked only after it was read.
            self._compare_cut_off(here)
            self._last |= last

    def look(self) -> None:
        """Look at all that was read so far. Raises errors as ``confirm`` does."""
        with self._one_at_a_time:
            self._refuse_replaced(self._kafka.ids(list(self.topic_ids)), self.topic_ids)
            self._compare_cut_off(self._of_known(self._epochs))

    def cause_of(self, error: Exception) -> Exception:
        """Why a stream has ended with ``error``. Spark tells a topic that was replaced in many ways."""
        if not isinstance(error, HourlineError):
            try:
                self.look()
            except SourceError as changed:
                return changed
            except BrokerError:
                pass  # It cannot be told.
        return error

    def _meet(self, topic: str) -> str:
        """The id of a topic that was not there at the start."""
        topic_id = self._kafka.ids([topic])[topic]
        if topic_id is None:
            raise self._deleted(topic)
        if self._source.on_recreate == "stop":
            self._refuse_replaced({topic: topic_id}, self._last_read.topic_ids)
        return topic_id

    def _refuse_replaced(self, ids: Mapping[str, str | None], known: Mapping[str, str]) -> None:
        for topic, now in ids.items():
            before = known.get(topic)
            if before is not None and now != before:
                self.refuse_other_cluster()
                raise self._deleted(topic) if now is None else self._recreated(topic, before, now)

    def _deleted(self, topic: str) -> TopicReplacedError:
        return self._replaced(
            f"topic '{topic}' of source '{self._source.name}' was deleted; what was read of it is archived and stays; "
            + self._how("once it is there")
            + ("" if names_of(self._source.topic) else "; without it, the next start goes on")
        )

    def _recreated(self, topic: str, before: str, now: str) -> TopicReplacedError:
        return self._replaced(
            f"topic '{topic}' of source '{self._source.name}' was deleted and recreated: its id was {before}, and is "
            f"{now}; what was read is archived and stays, and no record of the new topic was counted; {self._how('')}"
        )

    def _replaced(self, text: str) -> TopicReplacedError:
        return TopicReplacedError(text, goes_on=self._source.on_recreate == "continue")

    def _how(self, when: str) -> str:
        """How to go on with a topic that was replaced."""
        then = f" {when}" if when else ""
        if self._source.on_recreate == "continue":
            return f"the new one is read from its beginning{then}, as `on_recreate: continue` says"
        return (
            f"read the new one from its beginning{then}: `hourline reset {self._source.name}`, or declare "
            "`on_recreate: continue`"
        )

    def _of_known(self, partitions: Collection[Partition]) -> dict[Partition, LastRecord]:
        """The last known records of ``partitions``."""
        known = {(topic, number): self._last.get((self.topic_ids[topic], number)) for topic, number in partitions}
        return {partition: record for partition, record in known.items() if record is not None}

    def _compare_cut_off(self, records: Mapping[Partition, LastRecord | None]) -> None:
        """Compare ``records``, and those known before, of partitions that have another leader's epoch than before."""
        epochs = self._kafka.leader_epochs(records)
        changed = {of for of, epoch in epochs.items() if of not in self._epochs or self._epochs[of] != epoch}
        self._compare(self._of_known(changed))
        self._compare({of: record for of, record in records.items() if record and of in changed})
        self._epochs |= epochs

    def _compare(self, records: Mapping[Partition, LastRecord]) -> None:
        if differing := differing_records(self._kafka, records):
            raise self._cut_off(*differing[0])

    def _cut_off(self, partition: Partition, read: LastRecord, there: KafkaRecord | None) -> SourceError:
        (topic, number), source = partition, self._source.name
        now = _words(there.timestamp, _checksum(there)) if there else "there is none"
        return SourceError(
            f"topic '{topic}' partition {number}: the record at offset {read.offset} is not the one that was read: "
            f"{_words(read.timestamp, read.checksum)} was read, now {now}; the log was truncated, or restored from a "
            "backup, and has other records at the same offsets; archived events stay; restore the log, or send the new "
            "records to a recreated topic; or continue after that offset, without the new records before it: "
            f"`hourline reset {source} --to {topic}:{number}={read.offset + 1}`"
        )


def last_read(project: Project, source: Source) -> LastRead:
    """What progress says of the Kafka that the source was read from. Raises TableError."""
    progress = find_progress(project, source)
    return progress.last_read() if progress else LastRead()


def differing_records(
    kafka: AskedKafka, records: Mapping[Partition, LastRecord]
) -> list[tuple[Partition, LastRecord, KafkaRecord | None]]:
    """The records that were read and are not in Kafka, each with the one there. None: there is no record.

    A record that is missing within the log says nothing: retention, delete-records or compaction may have removed it.
    Raises BrokerError.
    """
    found = kafka.records_at({of: record.offset for of, record in records.items()}) if records else {}
    differing: list[tuple[Partition, LastRecord, KafkaRecord | None]] = []
    for of, read in records.items():
        there = found.get(of)
        if there is None:
            if read.offset >= kafka.end(of):
                differing.append((of, read, None))
        elif (there.timestamp or read.timestamp, _checksum(there)) != (read.timestamp, read.checksum):
            differing.append((of, read, there))
    return differing


def _checksum(record: KafkaRecord) -> str:
    return checksum_of(record.key, None if record.value is None else zlib.crc32(record.value), record.headers)


def _words(timestamp: datetime | None, checksum: str) -> str:
    sent = f"{timestamp:%Y-%m-%d %H:%M:%S} UTC" if timestamp else "no time"
    return f"one of {sent} with checksum {checksum}"
