"""Which Kafka a project uses: the one that its settings name, or one of its own in the workspace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hourline_core.errors import BrokerError
from hourline_core.model import Project
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, admin


@dataclass(frozen=True)
class Kafka:
    """A Kafka that answers, or is starting."""

    address: str
    """host:port"""
    alive: Callable[[], bool] = lambda: True
    """Whether it still runs, as far as this process can know: it does of a broker that it has started itself."""
    wait: Callable[[], None] = lambda: None
    """Returns when it answers. Raises SetupError when it does not start."""


@contextmanager
def kafka_of(project: Project, join: bool = True) -> Iterator[Kafka]:
    """The project's Kafka. The embedded broker is joined where it runs (if ``join``), else started for the length of
    the block.

    Who runs for long does not join: the broker is gone when the process that started it is. What it has to start itself
    can start meanwhile: then an embedded broker may not answer yet, see ``Kafka.wait``.

    Raises BrokerError when a Kafka that is named does not answer, SetupError when the embedded broker cannot start.
    """
    kafka = project.settings.kafka
    if address := kafka.bootstrap or (running_broker(project.workspace) if join else None):
        with admin(address, kafka.options, "list its topics") as client:
            client.list_topics(timeout=TIMEOUT_SECONDS)  # before anything costly is started
        yield Kafka(address)
        return
    with Broker(project.workspace, kafka.port, waiting=join) as broker:
        yield Kafka(broker.bootstrap, broker.alive, broker.wait)


def reachable_kafka(project: Project) -> str:
    """The address of the project's Kafka, which must be running. Raises BrokerError."""
    if address := project.settings.kafka.bootstrap or running_broker(project.workspace):
        return address
    raise BrokerError("the embedded Kafka is not running; start it with `hourline up`")
