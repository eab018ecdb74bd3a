"""The consumer groups of several sources, with a Kafka that does not answer."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from hourline_core.errors import BrokerError
from speed_layer.kafka import consumer_group
from speed_layer.kafka.consumer_group import ConsumerGroup


def test_a_stop_waits_for_all_groups_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    class Hanging(threading.Thread):
        """It does not end within the time that somebody waits for it."""

        def join(self, timeout: float | None = None) -> None:
            nonlocal now
            now += timeout or 0.0

    class Away:
        def __init__(self, *arguments: Any) -> None:
            pass

        @contextmanager
        def asking(self, *arguments: Any) -> Iterator[None]:
            raise BrokerError("Kafka is away")
            yield

    monkeypatch.setattr(consumer_group, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(threading, "Thread", Hanging)
    monkeypatch.setattr(consumer_group, "KeptAdmin", Away)
    with ExitStack() as running:
        for name in ("a", "b", "c"):
            running.enter_context(ConsumerGroup("localhost:1", {}, name)).show({"orders": {0: 1}})
    assert now == 102.0
