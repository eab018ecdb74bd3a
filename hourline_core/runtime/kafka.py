"""The Kafka that a project uses: the one in its settings, or an embedded one in the workspace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hourline_core.errors import BrokerError, KafkaForbidsError
from hourline_core.model import Project
from hourline_core.model.kafka_options import FILE_OPTIONS
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, admin


@dataclass(frozen=True)
class Kafka:
    """A Kafka that runs or is starting."""

    address: str
    """host:port"""
    alive: Callable[[], bool] = lambda: True
    """Whether it still runs. Always true for a Kafka that this process has not started."""
    wait: Callable[[], None] = lambda: None
    """Returns when it answers. Raises SetupError when it does not start."""
    restart: Callable[[], bool] = lambda: False
    """Starts it again if this process has started it and it has ended; says whether it did. Raises SetupError."""


@contextmanager
def kafka_of(project: Project, join: bool = True, give_up: Callable[[], bool] = lambda: False) -> Iterator[Kafka]:
    """The project's Kafka. With ``join``, an embedded broker that already runs is used. Else one is started for the
    block.

    Long-running processes do not join, since a broker ends with the process that started it. Without ``join``, the
    embedded broker may still be starting when the block begins: see ``Kafka.wait``. ``give_up`` is asked while it
    starts: once it says so, nobody waits for it.

    Raises BrokerError when the Kafka in the settings does not answer, or its options cannot be used, and SetupError
    when the embedded broker cannot start.
    """
    kafka = project.settings.kafka
    if address := kafka.bootstrap or (running_broker(project.workspace) if join else None):
        check_files(project)
        with admin(address, kafka.options, "list its topics") as client:
            client.list_topics(timeout=TIMEOUT_SECONDS)  # fails before the caller starts slower things
        yield Kafka(address)
        return
    if (protocol := kafka.options.get("security.protocol", "PLAINTEXT")) != "PLAINTEXT":
        raise KafkaForbidsError(
            f"hourline.yaml: kafka.options: got security.protocol {protocol} without kafka.bootstrap, but Hourline's "
            "own Kafka has no users and no TLS; name your Kafka as bootstrap, or remove the options"
        )
    with Broker(project.workspace, kafka.port, waiting=join, give_up=give_up) as broker:
        yield Kafka(broker.bootstrap, broker.alive, broker.wait, broker.restart)


def check_files(project: Project) -> None:
    """Raise KafkaForbidsError if a file that kafka.options names cannot be used."""
    options = project.settings.kafka.options
    if not options.keys() & {*FILE_OPTIONS}:
        return
    # It imports much, and few projects have such files.
    from hourline_core.runtime.pem_files import check_pem_files

    check_pem_files(options)


def reachable_kafka(project: Project) -> str:
    """The address of the project's Kafka, which must be running. Raises BrokerError, also for a file of its options
    that cannot be used.
    """
    if address := project.settings.kafka.bootstrap or running_broker(project.workspace):
        check_files(project)
        return address
    raise BrokerError("the embedded Kafka is not running; start it with `hourline up`")
