"""The configuration of a Kafka of one node: broker and controller in one process, on the loopback address."""

from hourline_core.runtime.ports import LOOPBACK


def broker_properties(port: int, controller_port: int) -> str:
    """The text of ``server.properties``. The data is in ``data`` below the broker's working directory."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        # Relative, because Kafka splits the value at commas and reads the file as Latin-1. The folder above may have
        # any name.
        "log.dirs": "data",
        # Topics are created explicitly, with the declared number of partitions. A misspelt name must fail.
        "auto.create.topics.enable": "false",
        # Retention uses the records' own times, so replayed old events would be deleted immediately.
        "log.retention.ms": -1,
        # One node cannot store the default of three copies. The default of 50 offset partitions delays the first
        # consumer.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # No other members join a group, so the default wait of 3 seconds is useless.
        "group.initial.rebalance.delay.ms": 0,
        # After a crash, a broker can register only when the session of the old one has expired. These are half of the
        # defaults.
        "broker.session.timeout.ms": 4500,
        "broker.heartbeat.interval.ms": 1000,
        # The default of 128 MB is a quarter of the heap, which is too much for the offsets of a few consumer groups.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
