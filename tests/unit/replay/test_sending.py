"""What a replay says where there is no Kafka to send to, or no file to send."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from hourline.replay import producer
from hourline.replay.sending import Progress, replay
from hourline_core.errors import BrokerError, UsageError
from hourline_core.formats.files.reading import open_recording
from hourline_core.formats.files.record import Record
from hourline_core.runtime.ports import free_ports


def test_a_kafka_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_REACHED_WITHIN_SECONDS", 1)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(
        BrokerError, match=f"Kafka at {nobody} did not answer within 1 seconds, to send to topic 'flights': .*refused"
    ):
        replay([], bootstrap=nobody, topic="flights", client_options={})


def test_client_options_that_kafka_does_not_take_are_named() -> None:
    with pytest.raises(BrokerError, match=r"security\.protocol"):
        replay([], bootstrap="127.0.0.1:1", topic="flights", client_options={"security.protocol": "telepathy"})


def test_a_file_is_looked_at_before_kafka_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"), open_recording(str(tmp_path / "a.csv")):
        raise AssertionError("it was opened")


@pytest.mark.parametrize(("seconds", "asked"), [(1.5, [0, 1, 2, 3]), (0.3, [0, 1, 1, 1])])
def test_kafka_is_asked_once_a_second_for_records_that_come_slowly(seconds: float, asked: list[int]) -> None:
    """Otherwise, a pipe with few records would learn late that they fail."""
    broker = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (at,) = broker.list_topics("taps", timeout=10).brokers.values()
    now, told = 0.0, list[Progress]()
    looks = list[int]()

    def pipe() -> Iterator[Record]:
        nonlocal now
        for line in range(4):
            now += seconds
            looks.append(len(told))
            yield Record(line, b"a", None, 0, None)

    done = replay(
        pipe(),
        bootstrap=f"{at.host}:{at.port}",
        topic="taps",
        client_options={},
        on_progress=told.append,
        clock=lambda: now,
    )
    assert (done.sent, looks) == (4, asked)
