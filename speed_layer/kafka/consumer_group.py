"""Shows a source's progress to Kafka's own tools, as the offsets of a consumer group.

It is shown after progress is committed, in a thread of its own, and never read back. So a Kafka that is slow, away or
refuses it delays and stops nothing: the next offsets are shown after the next micro-batch.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from hourline_core.errors import BrokerError
from hourline_core.runtime.kafka_admin import KeptAdmin

_SECONDS = 10.0
"""The time limit of a request."""

_SECONDS_AT_END = 2.0
"""A stop waits for the last request until this time after the last offsets were shown. So several sources wait at the
same time.
"""

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition, the next offset to read."""


class ConsumerGroup:
    """A context manager. Within the block, the offsets that are shown last get to the group ``name``, if Kafka
    answers in time.
    """

    def __init__(self, bootstrap: str, client_options: Mapping[str, str], name: str) -> None:
        self._bootstrap, self._options, self._name = bootstrap, client_options, name
        self._changed = threading.Condition()
        self._offsets: Offsets = {}
        self._shown = time.monotonic()
        """When the last offsets were shown."""
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"consumer group {name}", daemon=True)

    def show(self, offsets: Offsets) -> None:
        """Show these offsets soon. Returns at once."""
        with self._changed:
            self._offsets, self._shown = offsets, time.monotonic()
            self._changed.notify()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(max(0.0, self._shown + _SECONDS_AT_END - time.monotonic()))

    def _run(self) -> None:
        # After an error, another client asks: the one before may have a certificate that has expired.
        kept = KeptAdmin(self._bootstrap, self._options)
        while offsets := self._wait():
            with suppress(BrokerError, TimeoutError), kept.asking("show offsets", _SECONDS) as client:
                self._commit(client, offsets)

    def _wait(self) -> Offsets:
        """The newest offsets, once there are some. Empty: it is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._offsets or self._ended)
            offsets, self._offsets = self._offsets, {}
        return offsets

    def _commit(self, client: AdminClient, offsets: Offsets) -> None:
        partitions = [
            TopicPartition(topic, partition, offset)
            for topic, following in offsets.items()
            for partition, offset in following.items()
        ]
        if partitions:
            group = ConsumerGroupTopicPartitions(self._name, partitions)
            client.alter_consumer_group_offsets([group], request_timeout=_SECONDS)[self._name].result(_SECONDS)
