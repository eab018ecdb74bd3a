"""Asks a Kafka which cluster it is, and which topics and logs it has: once for each micro-batch, so with one client
that stays connected.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # not in strict mypy's way

from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, KeptAdmin
from hourline_core.runtime.kafka_records import KafkaRecord, Partition, records_at
from hourline_core.runtime.topics import id_of, retry, topic_offsets

_SECONDS_UNTIL_MISSING = 2.0
"""How long a broker that has just started may not know a topic that is there."""


@dataclass(frozen=True)
class TopicNow:
    """A topic that is there."""

    id: str
    """As Kafka's own tools print it."""
    partitions: int
    """Their number."""


class KafkaFacts:
    """Asks the Kafka at ``bootstrap``. ``client_options`` are those of librdkafka. ``group`` is the name of a consumer
    group, of which no offset is committed.

    ``seconds`` is the time limit of each request. All methods raise BrokerError.
    """

    def __init__(
        self, bootstrap: str, client_options: Mapping[str, str], group: str, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.bootstrap = bootstrap
        self._options = dict(client_options)
        self._group = group
        self._seconds = seconds
        self._admin = KeptAdmin(bootstrap, client_options)

    def cluster_id(self) -> str | None:
        """The id of the cluster. None: it has none."""
        with self._admin.asking("tell its cluster id", self._seconds) as client:
            cluster: str | None = client.describe_cluster(request_timeout=self._seconds).result().cluster_id
            return cluster

    def ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids of ``topics`` by name. None: there is no such topic."""
        return {name: None if topic is None else topic.id for name, topic in self.topics(topics).items()}

    def topics(self, topics: Collection[str]) -> dict[str, TopicNow | None]:
        """Those of ``topics`` that are there, by name. None: there is no such topic."""
        deadline = time.monotonic() + _SECONDS_UNTIL_MISSING
        while None in (found := self._describe(topics)).values() and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def leader_epochs(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """The epoch of each partition's leader. Only a new leader cuts a log off, and it has a higher one. None: Kafka
        does not say.
        """
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for topic, number in partitions}

        def ask() -> dict[Partition, int | None]:
            answers = client.list_offsets(asked, request_timeout=self._seconds)
            return {(of.topic, of.partition): answer.result().leader_epoch for of, answer in answers.items()}

        with self._admin.asking("tell the leaders of partitions", self._seconds) as client:
            return retry(ask, self._seconds) if asked else {}

    def records_at(self, offsets: Mapping[Partition, int]) -> dict[Partition, KafkaRecord]:
        """The records at ``offsets``. A partition is left out if it has none there."""
        return records_at(self.bootstrap, self._options, self._group, offsets, self._seconds)

    def end(self, partition: Partition) -> int:
        """The end of the committed records."""
        topic, number = partition
        return topic_offsets(self.bootstrap, topic, self._options, self._seconds)[number][1]

    def _describe(self, topics: Collection[str]) -> dict[str, TopicNow | None]:
        found: dict[str, TopicNow | None] = {}
        if not topics:
            return found
        with self._admin.asking(f"describe {', '.join(sorted(topics))}", self._seconds) as client:
            described = client.describe_topics(TopicCollection(list(topics)), request_timeout=self._seconds)
            for name, answer in described.items():
                try:
                    topic = answer.result()
                    found[name] = TopicNow(id_of(topic), len(topic.partitions))
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                    found[name] = None
        return found
