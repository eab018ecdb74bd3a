"""A broker that does not start, and a Kafka that does not answer."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hourline_core.errors import BrokerError, SetupError
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.file_lock import holder
from hourline_core.runtime.java import find_java
from hourline_core.runtime.topics import topic_offsets
from tests.support.speed_process import wait_until

Kafka = Callable[[str], None]


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    """Lets a line of shell stand in for Kafka's Java."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)

    def put(line: str) -> None:
        java.write_text(f"""#!/bin/sh
case "$*" in
    -version*) echo 'version "17"' >&2 ;;
    *) {line} ;;
esac
""")
        java.chmod(0o755)

    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setattr("hourline_core.runtime.broker_commands.fetch_jars", lambda _which: [])
    find_java.cache_clear()
    yield put
    find_java.cache_clear()


def test_a_broker_that_dies_at_once_is_told_with_its_last_words(tmp_path: Path, kafka: Kafka) -> None:
    kafka("echo 'java.lang.OutOfMemoryException: no room'; echo '\tat kafka.Kafka.main'; echo 'bye'; exit 1")
    said = r"did not start; its last message was 'java\.lang\.OutOfMemoryException: no room'; its log is .*/logs/broker\.log"
    with pytest.raises(SetupError, match=said):
        Broker(tmp_path / "workspace").__enter__()
    assert holder(tmp_path / "workspace" / "run" / "broker.lock") is None


def test_nobody_waits_for_a_broker_that_starts_when_it_is_to_stop(tmp_path: Path, kafka: Kafka) -> None:
    kafka('case "$*" in *StorageTool*) ;; *) exec sleep 1000 ;; esac')
    asked = threading.Event()
    with Broker(tmp_path / "workspace", waiting=False, give_up=asked.is_set) as broker:
        os.kill(broker._process.pid, signal.SIGKILL)
        wait_until(lambda: not broker.alive(), "it lives")
        with ThreadPoolExecutor(1) as restarting:
            restarted = restarting.submit(broker.restart)
            wait_until(broker.alive, "it is not started again")
            asked.set()
            assert restarted.result(10)
    assert running_broker(tmp_path / "workspace") is None


def test_the_file_a_killed_broker_left_behind_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "broker.json").write_text(json.dumps({"bootstrap": "127.0.0.1:9092", "pid": os.getpid()}))
    assert running_broker(tmp_path) is None


def test_an_address_that_a_power_cut_has_emptied_is_that_of_no_broker(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "broker.json").touch()
    assert running_broker(tmp_path) is None


def test_a_kafka_that_does_not_answer() -> None:
    with pytest.raises(
        BrokerError,
        match=r"127\.0\.0\.1:1 did not answer within 1 seconds, .*Connection refused.* change kafka\.bootstrap",
    ):
        topic_offsets("127.0.0.1:1", "flights", {}, seconds=1.0)
