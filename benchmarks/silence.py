"""Measures the first event after a silence: the time from when it was due to the first answer that counts it.

    python -m benchmarks.silence [--full]

`hourline speed` runs as in `freshness`, with one metric and the same reader, and counts some seconds of 2,000 events
per second first. Then nothing is sent for a minute, then one event, and so on: ten times with `--full`. A quick run has
five silences of ten seconds. Of so few events, the 99th percentile lies between the two slowest, close to the slowest.
The producer and the reader's connection stay open, so only the speed layer, its Kafka and the reader's opening of the
newest snapshot may be slow after a silence. At the end, the counts of all events must be right.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks.figures import Figure
from benchmarks.freshness import WARM_UP_SECONDS, Subject, hourline, observe, watch
from benchmarks.orders import order, turnover
from benchmarks.running import run
from hourline_core.runtime.broker import Broker

RATE = 2_000
SILENCES = {False: (5, 10), True: (10, 60)}
"""In quick and in full mode, the number of silences, and the seconds of each."""
AHEAD_SECONDS = 1.0
"""The time for the reader to begin to look for the event."""
GOAL = 1_000


def measure(full: bool) -> Iterator[Figure | str]:
    count, seconds = SILENCES[full]
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        hourline(Path(folder) / "hourline", broker.bootstrap, "orders") as subject,
    ):
        sent: list[int] = []
        observe(subject, RATE, WARM_UP_SECONDS[full], 1, sent)
        producer = Producer({"bootstrap.servers": subject.bootstrap, "linger.ms": 2, "log_level": 0})
        visible = [after_silence(subject, producer, seconds, sent) for _ in range(count)]
        assert subject.answer() == turnover(sent), "the counts are not those of what was sent"
    what = f"the first event after {seconds} s of silence, send to visible"
    yield Figure(what=f"{what}: p99", unit="ms", ours=[float(np.percentile(visible, 99))], peer=[], goal=GOAL)
    yield Figure(what=f"{what}: p50", unit="ms", ours=[float(np.percentile(visible, 50))], peer=[])
    yield f"Each of the {count}, in ms: {', '.join(f'{one:.0f}' for one in visible)}."


def after_silence(subject: Subject, producer: Producer, seconds: int, sent: list[int]) -> float:
    """Milliseconds until the next event is visible, which is sent after so many ``seconds``, and added to ``sent``."""
    time.sleep(seconds)
    due = int((time.time() + AHEAD_SECONDS) * 1000)
    sending = threading.Thread(target=send, args=(producer, subject.topic, len(sent), due))
    sending.start()
    sent.append(due)
    moments, _ = watch(subject, len(sent))
    sending.join()
    return float(moments[-1] * 1000 - due)


def send(producer: Producer, topic: str, number: int, at: int) -> None:
    """Produce the order with this number at the time ``at`` (ms)."""
    time.sleep(at / 1000 - time.time())
    producer.produce(topic, order(number, at))
    producer.flush()


if __name__ == "__main__":
    run("silence", measure)
