"""What a speed layer in this process tells, kept as it was told."""

import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from hourline_core.errors import BrokerError, RegistryError, TopicReplacedError
from hourline_core.ledger.progress_rows import Gap
from hourline_core.model import Project, Source
from hourline_core.runtime.kafka import Kafka
from hourline_core.runtime.kafka_absence import KafkaAbsence
from speed_layer.commit.committer import Finished
from speed_layer.observer import Observer
from speed_layer.recovery.lost_records import explain_gaps
from speed_layer.speed_layer import SpeedLayer
from speed_layer.state import State


class Observed(Observer):
    """Keeps everything but the heartbeat."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.states: list[State] = []
        self.batches: list[Finished] = []
        self.absences: list[KafkaAbsence] = []
        self.retries: list[tuple[str, int]] = []
        """What had failed, and the seconds until the next try."""
        self.replaced: list[TopicReplacedError] = []
        self.back: list[str] = []
        """The topics that are there again."""
        self.registry: list[str] = []
        """Why a source waits for the registry, and the names of sources that do so no more."""
        self.losses: list[str] = []
        """A sentence for each loss that is accepted."""

    def changed(self, state: State, before: State) -> None:
        self.states.append(state)
        if state is State.RUNNING:
            self.ready.set()

    def finished(self, done: Finished) -> None:
        self.batches.append(done)

    def kafka_absent(self, absence: KafkaAbsence) -> None:
        self.absences.append(absence)

    def retries_after(self, failure: BrokerError, seconds: int) -> None:
        self.retries.append((str(failure), seconds))

    def topic_replaced(self, why: TopicReplacedError) -> None:
        self.replaced.append(why)

    def topic_is_back(self, topic: str) -> None:
        self.back.append(topic)

    def registry_absent(self, failure: RegistryError) -> None:
        self.registry.append(str(failure))

    def registry_is_back(self, source: str) -> None:
        self.registry.append(source)

    def accepts_loss(self, source: Source, gaps: Mapping[str, tuple[Gap, ...]]) -> None:
        self.losses.append(explain_gaps(source, gaps))


def drain(spark: SparkSession, project: Project, bootstrap: str, accept_loss: bool = False) -> Observed:
    """Run the speed layer until all that is in the topics has been processed."""
    observed = Observed()
    SpeedLayer(spark, project, Kafka(bootstrap), observed, drain=True, accept_loss=accept_loss).run(threading.Event())
    return observed
