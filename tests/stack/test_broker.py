"""The embedded Kafka: up, answering, alone on its workspace, its data kept, and gone when its parent is gone."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined] # not in strict mypy's way

from hourline_core.errors import BrokerError, ConflictError, SetupError
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.file_lock import holder, is_alive, locked
from hourline_core.runtime.java import find_java
from hourline_core.runtime.supervised import Supervised
from hourline_core.runtime.topics import ensure_topic, topic_offsets

pytestmark = pytest.mark.beside

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


@pytest.mark.stack
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


@pytest.mark.stack
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
    with locked(tmp_path / "run" / "broker.lock", "still holds it"):  # waits for the last of those that inherited it
        assert not is_alive(broker_pid)
    with Broker(tmp_path) as broker:
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 5)}


@pytest.mark.stack
def test_a_broker_that_was_killed_itself_comes_up_again_on_what_it_left(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        ensure_topic(broker.bootstrap, "flights", 1, {})
        send(broker.bootstrap, "flights", 5)
        os.kill(json.loads((tmp_path / "run" / "broker.json").read_text())["pid"], signal.SIGKILL)
    assert not broker.alive()
    with Broker(tmp_path) as broker:
        assert topic_offsets(broker.bootstrap, "flights", {}) == {0: (0, 5)}


@pytest.mark.stack
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
        assert client.describe_configs([resource])[resource].result()["retention.ms"].value == "-1"
        with pytest.raises(BrokerError, match="there is no topic 'fligths'"):
            topic_offsets(broker.bootstrap, "fligths", {})
        with pytest.raises(BrokerError, match="refused to create topic 'a b': Topic name is invalid"):
            ensure_topic(broker.bootstrap, "a b", 1, {})
        with pytest.raises(BrokerError, match="refused to create topic 'x': No such configuration property: \"acsk\""):
            ensure_topic(broker.bootstrap, "x", 1, {"acsk": "all"})


@pytest.mark.stack
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


def test_a_broker_that_dies_at_once_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("""#!/bin/sh
if [ "$1" = -version ]; then echo 'version "17"' >&2; exit; fi
echo 'java.lang.OutOfMemoryException: no room'; echo '\tat kafka.Kafka.main'; echo 'bye'; exit 1
""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setattr("hourline_core.runtime.broker.fetch_jars", lambda _which: [])
    find_java.cache_clear()
    try:
        said = r"did not start; the last it said was 'java\.lang\.OutOfMemoryException: no room'; the whole is in .*/logs/broker\.log"
        with pytest.raises(SetupError, match=said):
            Broker(tmp_path / "workspace").__enter__()
    finally:
        find_java.cache_clear()
    assert holder(tmp_path / "workspace" / "run" / "broker.lock") is None


def test_the_file_a_killed_broker_left_behind_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "broker.json").write_text(json.dumps({"bootstrap": "127.0.0.1:9092", "pid": os.getpid()}))
    assert running_broker(tmp_path) is None


def test_a_kafka_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hourline_core.runtime.topics.TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("hourline_core.runtime.kafka_admin.TIMEOUT_SECONDS", 1.0)
    with pytest.raises(
        BrokerError,
        match=r"127\.0\.0\.1:1 did not answer within 1 seconds, .*Connection refused.* change kafka\.bootstrap",
    ):
        ensure_topic("127.0.0.1:1", "flights", 1, {})


def test_a_command_that_ignores_the_request_to_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    words = tmp_path / "words"
    os.mkfifo(words)
    script = 'trap "" TERM; exec >"$0"; sleep 1000 & echo ready; wait'
    command = Supervised(["sh", "-c", script, words], log=tmp_path / "log", grace=0.2)
    with words.open() as said:
        assert said.readline() == "ready\n"
        assert command.stop() == -signal.SIGKILL
        assert said.read() == ""  # the end is reached only when the inner command, which has it open too, is gone


def test_a_command_tells_its_exit_status_and_one_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert Supervised(["sh", "-c", "exit 3"], log=tmp_path / "log").wait() == 3
    with pytest.raises(SetupError, match=r"'no-such-command' could not be started: .*No such file"):
        Supervised(["no-such-command"], log=tmp_path / "log")
