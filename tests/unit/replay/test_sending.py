"""What a replay says where there is no Kafka to send to, or no file to send."""

from pathlib import Path

import pytest

from hourline.replay import producer
from hourline.replay.sending import replay
from hourline_core.errors import BrokerError, UsageError
from hourline_core.formats.files.reading import open_recording
from hourline_core.runtime.ports import free_ports


def test_a_kafka_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_REACHED_WITHIN_SECONDS", 1)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(BrokerError, match=f"Kafka at {nobody} cannot be reached to send to topic 'flights': .*refused"):
        replay([], bootstrap=nobody, topic="flights", client_options={})


def test_client_options_that_kafka_does_not_take_are_named() -> None:
    with pytest.raises(BrokerError, match=r"security\.protocol"):
        replay([], bootstrap="127.0.0.1:1", topic="flights", client_options={"security.protocol": "telepathy"})


def test_a_file_is_looked_at_before_kafka_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"), open_recording(str(tmp_path / "a.csv")):
        raise AssertionError("it was opened")
