"""The embedded Kafka: up, answering, alone on its workspace, its data kept, and gone when its parent is gone."""

import json
import os
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType  # type: ignore[attr-defined] # not in strict mypy's way

from hourline_core.errors import BrokerError, ConflictError, SetupError
from hourline_core.model.topics import Retention
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.file_lock import hold_lock, is_alive
from hourline_core.runtime.topics import ensure_topic, topic_offsets
from tests.support.speed_process import wait_until

PARENT = """
import sys
from pathlib import Path
from hourline_core.runtime.broker import Broker
with Broker(Path(sys.argv[1])) as broker:
    print(broker.bootstrap, flush=True)
    sys.stdin.read()
"""


def send(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(10) == 0


def test_topics_and_records_are_kept_when_the_broker_is_stopped_and_started_again(tmp_path: Path) -> None:
    workspace = tmp_path / "a workspace, mit Ümlaut"
    with Broker(workspace) as broker:
        assert broker.alive()
        assert running_broker(workspace) == broker.bootstrap
        topic_id = ensure_topic(broker.bootstrap, "flights", 2, {})
        assert ensure_topic(broker.bootstrap, "flights", 7, {}) == topic_id
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 0), 1: (0, 0)}
        send(broker.bootstrap, "flights", 3)
    assert not broker.alive()
    assert running_broker(workspace) is None
    with Broker(workspace) as broker:
        assert ensure_topic(broker.bootstrap, "flights", 2, {}) == topic_id
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 3), 1: (0, 0)}


def test_a_broker_is_gone_when_its_parent_is_killed_and_recovers_when_started_again(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        bootstrap = parent.stdout.readline().strip()
        assert running_broker(tmp_path) == bootstrap
        ensure_topic(bootstrap, "flights", 1, {})
        send(bootstrap, "flights", 5)
        broker_pid = json.loads((tmp_path / "run" / "broker.json").read_text())["pid"]
        parent.kill()
    assert running_broker(tmp_path) is None
    with hold_lock(tmp_path / "run" / "broker.lock", "still holds it"):  # waits for the last of those that inherited it
        assert not is_alive(broker_pid)
    with Broker(tmp_path) as broker:
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 5)}


@pytest.mark.long
def test_a_broker_that_was_killed_itself_comes_up_again_on_what_it_left(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        ensure_topic(broker.bootstrap, "flights", 1, {})
        send(broker.bootstrap, "flights", 5)
        os.kill(json.loads((tmp_path / "run" / "broker.json").read_text())["pid"], signal.SIGKILL)
        wait_until(lambda: not broker.alive(), "it was killed")
        assert broker.restart()
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 5)}
        assert not broker.restart(), "it runs"
    assert not broker.alive()
    with Broker(tmp_path) as broker:
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 5)}


def test_a_workspace_has_one_broker_and_a_project_the_topics_it_asked_for(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with pytest.raises(
            ConflictError,
            match=rf"process {os.getpid()} already runs a broker on {tmp_path}; wait if it is a replay, stop it with 'hourline down'",
        ):
            Broker(tmp_path).__enter__()
        assert running_broker(tmp_path) == broker.bootstrap
        ensure_topic(broker.bootstrap, "flights", 1, {})
        resource = ConfigResource(ResourceType.TOPIC, "flights")
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        retention = client.describe_configs([resource])[resource].result()["retention.ms"]
        assert retention.value == "-1"
        assert retention.source != ConfigSource.DYNAMIC_TOPIC_CONFIG.value, "it is the broker's, not the topic's"
        cases: list[tuple[str, Retention, str]] = [("a", timedelta(days=7), "604800000"), ("b", "forever", "-1")]
        for topic, declared, kept in cases:
            ensure_topic(broker.bootstrap, topic, 1, {}, declared)
            resource = ConfigResource(ResourceType.TOPIC, topic)
            retention = client.describe_configs([resource])[resource].result()["retention.ms"]
            assert (retention.value, retention.source) == (kept, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
        with pytest.raises(BrokerError, match="there is no topic 'fligths'"):
            topic_offsets(broker.bootstrap, "fligths", {})
        with pytest.raises(BrokerError, match="refused to look for topic 'a b': "):
            ensure_topic(broker.bootstrap, "a b", 1, {})
        with pytest.raises(
            BrokerError,
            match=r'does not take its options: No such configuration property: "acsk"; change kafka.options',
        ):
            ensure_topic(broker.bootstrap, "x", 1, {"acsk": "all"})


def test_a_port_can_be_given_and_one_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            SetupError,
            match=rf"port {port} cannot be listened on: Address already in use; .* set kafka\.port in hourline\.yaml",
        ):
            Broker(tmp_path, port).__enter__()
    assert running_broker(tmp_path) is None
    with Broker(tmp_path, port) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"
