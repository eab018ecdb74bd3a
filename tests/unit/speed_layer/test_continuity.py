"""Continuity: what Kafka has is compared with what was read, before anything is committed, and without false alarms."""

import zlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import pytest

from hourline_core.errors import BrokerError, SourceError, TopicReplacedError
from hourline_core.ledger.last_read import LastRead
from hourline_core.ledger.last_records import LastRecord, checksum_of
from hourline_core.model import EventTime, Field, Source
from hourline_core.model.topics import TopicPattern
from hourline_core.runtime.kafka_records import KafkaRecord, Partition
from speed_layer.kafka.continuity import Continuity

NOW = datetime(2024, 4, 1, tzinfo=UTC)
SOURCE = Source(name="visits", topic="visits", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
GOING_ON = SOURCE.model_copy(update={"on_recreate": "continue"})


def standing(value: bytes | None = b"{}", key: bytes | None = None, timestamp: datetime = NOW) -> KafkaRecord:
    return KafkaRecord(timestamp, key, value, {"trace": b"1"})


def read(offset: int, record: KafkaRecord | None = None, partition: int = 0) -> LastRecord:
    record = record or standing()
    crc = None if record.value is None else zlib.crc32(record.value)
    return LastRecord(partition, offset, record.timestamp, checksum_of(record.key, crc, record.headers))


class FakeKafka:
    """A Kafka with the topic ``visits``, of which the record at 9 was read last."""

    bootstrap = "kafka:9092"

    def __init__(self) -> None:
        self.cluster: str | None = "c1"
        self.topics: dict[str, str | None] = {"visits": "id-1"}
        self.epoch: int | None = 3
        self.records = {9: standing()}
        self.away = False
        self.asked: list[Mapping[Partition, int]] = []

    def cluster_id(self) -> str | None:
        return self.cluster

    def ids(self, topics: Collection[str]) -> dict[str, str | None]:
        if self.away:
            raise BrokerError("Kafka did not answer")
        return {topic: self.topics.get(topic) for topic in topics}

    def leader_epochs(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        return dict.fromkeys(partitions, self.epoch)

    def records_at(self, offsets: Mapping[Partition, int]) -> dict[Partition, KafkaRecord]:
        self.asked.append(offsets)
        return {of: self.records[offset] for of, offset in offsets.items() if offset in self.records}

    def end(self, partition: Partition) -> int:
        return max(self.records, default=-1) + 1


LAST_READ = LastRead("c1", {"visits": "id-1"}, {("id-1", 0): read(9)})


def begun(kafka: FakeKafka, last_read: LastRead = LAST_READ, source: Source = SOURCE) -> Continuity:
    continuity = Continuity(source, kafka, last_read)
    continuity.refuse_other_cluster()
    continuity.refuse_missing_topics()
    # A topic that is missing is recreated.
    continuity.begin(
        {topic: topic_id or "id-3" for topic, topic_id in kafka.topics.items()}, [("visits", 0), ("visits", 1)]
    )
    return continuity


def test_a_start_on_another_cluster_is_refused() -> None:
    kafka = FakeKafka()
    kafka.cluster = "c2"
    with pytest.raises(SourceError, match=r"cluster c1, and the one at kafka:9092 is c2; .*`hourline reset visits`"):
        begun(kafka)
    begun(kafka, LastRead(None, LAST_READ.topic_ids, LAST_READ.records))  # an older version noted none
    kafka.cluster = None
    begun(kafka)


@pytest.mark.parametrize(("now", "words"), [("id-2", "its id was id-1, and is id-2"), (None, "was deleted; what")])
def test_a_start_on_a_topic_that_was_replaced_is_refused_or_goes_on(now: str | None, words: str) -> None:
    kafka = FakeKafka()
    kafka.topics = {"visits": now}
    with pytest.raises(TopicReplacedError, match=words):
        begun(kafka)
    begun(kafka, source=GOING_ON)
    assert kafka.asked == [], "the records of the older topic are none of the new one"


def test_what_was_read_of_a_topic_that_was_replaced_since_is_not_confirmed() -> None:
    kafka = FakeKafka()
    continuity = begun(kafka)
    continuity.confirm({("id-1", 0): read(12)})
    for source in (SOURCE, GOING_ON):
        continuity = begun(kafka, source=source)
        kafka.topics = {"visits": "id-2"}
        with pytest.raises(TopicReplacedError, match="no record of the new topic was counted"):
            continuity.confirm({("id-1", 0): read(12)})
        with pytest.raises(TopicReplacedError):
            continuity.look()
        kafka.cluster = "c2"
        with pytest.raises(SourceError, match="is c2"):
            continuity.look()
        kafka.topics, kafka.cluster = {"visits": "id-1"}, "c1"


def test_a_topic_of_a_pattern_that_is_deleted_stops_the_stream_and_no_start() -> None:
    kafka, source = FakeKafka(), SOURCE.model_copy(update={"topic": TopicPattern(pattern="vis.*")})
    continuity = begun(kafka, source=source)
    kafka.topics = {}
    with pytest.raises(TopicReplacedError, match=r"was deleted; .*; without it, the next start goes on"):
        continuity.look()
    Continuity(source, kafka, LAST_READ).refuse_missing_topics()


def test_a_topic_that_appears_later_is_the_one_that_was_read_before() -> None:
    kafka = FakeKafka()
    known = LastRead("c1", {"visits": "id-1", "views": "id-7"}, {})
    kafka.topics["views"] = "id-8"
    with pytest.raises(TopicReplacedError, match="its id was id-7, and is id-8"):
        Continuity(SOURCE, kafka, known).topic_ids["views"]
    assert Continuity(GOING_ON, kafka, known).topic_ids["views"] == "id-8"
    kafka.topics["views"] = None
    with pytest.raises(TopicReplacedError, match="was deleted"):
        Continuity(GOING_ON, kafka, known).topic_ids["views"]


def test_a_topic_that_appears_later_is_replaced_before_its_id_is_known() -> None:
    kafka = FakeKafka()
    continuity = begun(kafka)
    kafka.topics["views"] = "id-8"
    assert continuity.topic_ids["views"] == "id-8", "its records were read of an older topic of that name"
    with pytest.raises(SourceError, match="topic 'views' partition 0: the record at offset 14"):
        continuity.confirm({("id-8", 0): read(14)})
    kafka.records[14] = standing()
    continuity.confirm({("id-8", 0): read(14)})


@pytest.mark.parametrize(
    "other",
    [standing(b"[]"), standing(None), standing(key=b"k"), standing(timestamp=NOW.replace(hour=1))],
    ids=["value", "no value", "key", "time"],
)
def test_a_start_compares_the_last_record_with_kafka(other: KafkaRecord) -> None:
    kafka = FakeKafka()
    begun(kafka)
    kafka.records = {9: other, 20: standing()}
    with pytest.raises(
        SourceError, match=r"partition 0: the record at offset 9 .* `hourline reset visits --to visits:0=10`"
    ):
        begun(kafka)


def test_a_record_that_retention_or_compaction_has_taken_says_nothing() -> None:
    kafka = FakeKafka()
    kafka.records = {20: standing()}
    begun(kafka)
    kafka.records = {8: standing()}
    with pytest.raises(SourceError, match="now there is none"):
        begun(kafka)


def test_a_new_leader_has_the_log_that_was_read() -> None:
    kafka = FakeKafka()
    continuity = begun(kafka)
    kafka.asked.clear()
    kafka.records = {12: standing()}
    continuity.confirm({("id-1", 0): read(12)})
    assert kafka.asked == [], "one leader never cuts a log off"

    # Of what was read by the old leader, the new one has another record; the one before is not there either.
    kafka.epoch = 4
    with pytest.raises(SourceError, match="offset 12"):
        kafka.records = {12: standing(b"[]"), 14: standing()}
        continuity.confirm({("id-1", 0): read(14)})
    with pytest.raises(SourceError, match="offset 14"):
        kafka.records = {12: standing(), 14: standing(b"[]")}
        continuity.confirm({("id-1", 0): read(14)})
    with pytest.raises(SourceError, match="offset 12"):
        kafka.records = {}
        continuity.look()
    kafka.records = {12: standing(), 14: standing()}
    continuity.confirm({("id-1", 0): read(14)})
    kafka.asked.clear()
    continuity.confirm({("id-1", 0): read(15)})
    continuity.look()
    assert kafka.asked == []


def test_a_partition_that_was_added_is_compared_once() -> None:
    kafka = FakeKafka()
    continuity = begun(kafka)
    kafka.asked.clear()
    kafka.records[3] = standing()
    for offset in (3, 4):
        continuity.confirm({("id-1", 2): read(offset, partition=2)})
    assert kafka.asked == [{("visits", 2): 3}]


def test_a_kafka_that_is_away_says_nothing() -> None:
    kafka = FakeKafka()
    continuity = begun(kafka)
    kafka.away = True
    with pytest.raises(BrokerError):
        continuity.confirm({("id-1", 0): read(12)})


def test_what_spark_says_of_a_topic_that_was_replaced_is_not_what_is_told() -> None:
    kafka, of_spark = FakeKafka(), RuntimeError("Some data may have been lost")
    continuity = begun(kafka)
    assert continuity.cause_of(of_spark) is of_spark
    kafka.away = True
    assert continuity.cause_of(of_spark) is of_spark
    kafka.away, kafka.topics = False, {"visits": "id-2"}
    assert isinstance(continuity.cause_of(of_spark), TopicReplacedError)
    own = BrokerError("Kafka refused")
    assert continuity.cause_of(own) is own
