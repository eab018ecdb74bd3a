"""What a speed layer tells while it runs: facts. The observer makes sentences of them."""

from collections.abc import Mapping

from hourline_core.errors import BrokerError, RegistryError, TopicReplacedError
from hourline_core.ledger.progress_rows import Gap
from hourline_core.model import Source
from hourline_core.runtime.kafka_absence import KafkaAbsence
from speed_layer.commit.committer import Finished
from speed_layer.state import State


class Observer:
    """Ignores all facts. A subclass overrides the methods for the facts that it needs.

    ``finished`` is called in a thread of each source, and what it raises ends the stream. ``kafka_absent``,
    ``topic_is_back`` and ``registry_is_back`` are called in a thread that asks Kafka or the registry, and may raise
    OSError. The others are called in the thread that runs the speed layer, and what they raise ends it.
    """

    def changed(self, state: State, before: State) -> None:
        """The speed layer has entered ``state``. It was in ``before``."""

    def heartbeat(self) -> None:
        """Called 10 times a second while streams run, or Kafka is waited for."""

    def finished(self, done: Finished) -> None:
        """A micro-batch was committed."""

    def kafka_absent(self, absence: KafkaAbsence) -> None:
        """Kafka has gone, or is back if the absence has an end."""

    def retries_after(self, failure: BrokerError, seconds: int) -> None:
        """Streams have ended by ``failure`` although Kafka answers, and are started again after this time."""

    def topic_replaced(self, why: TopicReplacedError) -> None:
        """A topic was deleted, and its source goes on with the new one, as it declares."""

    def topic_is_back(self, topic: str) -> None:
        """A topic that was deleted is there again."""

    def registry_absent(self, failure: RegistryError) -> None:
        """The schema registry has not answered, and a source waits until it does. The others are read on."""

    def registry_is_back(self, source: str) -> None:
        """The registry that ``source`` has waited for answers again."""

    def accepts_loss(self, source: Source, gaps: Mapping[str, tuple[Gap, ...]]) -> None:
        """Records of ``source``, by topic, are skipped from now on: Kafka has deleted them before they were read."""
