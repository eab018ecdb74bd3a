"""A broker that does not start, and a Kafka that does not answer."""

import json
import os
from pathlib import Path

import pytest

from hourline_core.errors import BrokerError, SetupError
from hourline_core.runtime.broker import Broker, running_broker
from hourline_core.runtime.file_lock import holder
from hourline_core.runtime.java import find_java
from hourline_core.runtime.topics import topic_offsets


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
    monkeypatch.setattr("hourline_core.runtime.broker_commands.fetch_jars", lambda _which: [])
    find_java.cache_clear()
    try:
        said = r"did not start; its last message was 'java\.lang\.OutOfMemoryException: no room'; its log is .*/logs/broker\.log"
        with pytest.raises(SetupError, match=said):
            Broker(tmp_path / "workspace").__enter__()
    finally:
        find_java.cache_clear()
    assert holder(tmp_path / "workspace" / "run" / "broker.lock") is None


def test_the_file_a_killed_broker_left_behind_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "broker.json").write_text(json.dumps({"bootstrap": "127.0.0.1:9092", "pid": os.getpid()}))
    assert running_broker(tmp_path) is None


def test_a_kafka_that_does_not_answer() -> None:
    with pytest.raises(
        BrokerError,
        match=r"127\.0\.0\.1:1 did not answer within 1 seconds, .*Connection refused.* change kafka\.bootstrap",
    ):
        topic_offsets("127.0.0.1:1", "flights", {}, seconds=1.0)
