"""The configuration of a Kafka broker that is alone: broker and controller in one process, on the loopback address."""

from hourline_core.runtime.ports import LOOPBACK


def broker_properties(port: int, controller_port: int) -> str:
    """The text of ``server.properties``, with the data in ``data`` under the folder the broker is started in."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        # Relative, because Kafka splits the value at commas and reads the file as Latin-1: the folder above may be
        # called anything.
        "log.dirs": "data",
        # Topics are made on purpose, with the partitions the project wants; a misspelt name must fail.
        "auto.create.topics.enable": "false",
        # Retention goes by the records' own times: replayed old events would be deleted as soon as they came.
        "log.retention.ms": -1,
        # One node cannot hold the three copies that are the defaults, and 50 partitions of offsets make the first
        # consumer wait.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # No other members are on their way that waiting 3 seconds would catch.
        "group.initial.rebalance.delay.ms": 0,
        # After a crash the broker is let in again only when the session of the one before has run out: half of the
        # defaults.
        "broker.session.timeout.ms": 4500,
        "broker.heartbeat.interval.ms": 1000,
        # The default of 128 MB is a quarter of the heap, for topics of a few consumer groups.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
