"""Decides when streams that have ended because of Kafka are started again.

A start goes on from progress, whatever has happened before. So streams that have ended need nothing but another start.
"""

import threading
from datetime import datetime, timedelta

from hourline_core.errors import BrokerError, KafkaForbidsError
from hourline_core.model.hours import Clock
from hourline_core.runtime.kafka import Kafka
from speed_layer.kafka.kafka_watch import KafkaWatch
from speed_layer.observer import Observer

MOST_FAILURES = 5
"""The maximum number of restarts within ``OVER`` while Kafka answers. Each waits twice as long as the one before."""

OVER = timedelta(minutes=10)
"""Also the time for which Kafka may forbid what it has allowed before."""

_LONGEST_PAUSE = 60
"""In seconds."""


class Restarts:
    """The restarts of one speed layer. While ``kafka`` is waited for, it is started again when it has ended, if it is
    one of this process. ``clock`` is the wall's (UTC).
    """

    def __init__(self, watch: KafkaWatch, kafka: Kafka, observer: Observer, clock: Clock) -> None:
        self._watch, self._kafka, self._observer, self._clock = watch, kafka, observer, clock
        self._absences = watch.absences
        """How often Kafka had gone when the streams started."""
        self._failures: dict[type[BrokerError], list[datetime]] = {}
        self._forbidden_since: datetime | None = None

    def wait(self, failure: BrokerError, stop: threading.Event) -> None:
        """Return when streams that have ended by ``failure`` are to be started again, or ``stop`` is set: once Kafka
        answers, however long that takes.

        Raises the failure when it comes too often while Kafka answers, KafkaForbidsError when Kafka forbids for too
        long, and SetupError when a Kafka of this process does not start again.
        """
        failed, pause = self._clock(), 0
        forbidden_since = None
        for reason in self._watch.until_answer(stop):
            if isinstance(reason, KafkaForbidsError):
                forbidden_since = forbidden_since or self._clock()
                if self._clock() - forbidden_since > OVER:
                    raise reason
            else:
                forbidden_since = None  # A Kafka that comes back may refuse at first.
            self._observer.heartbeat()
            if not self._kafka.alive() and self._kafka.restart():
                pause = self._pause_after(failure, self._clock())
        if not pause and self._watch.absences == self._absences and not stop.is_set():
            pause = self._pause_after(failure, failed)
        if pause and not stop.is_set():
            self._observer.retries_after(failure, pause)
            stop.wait(pause)
        self._absences = self._watch.absences

    def _pause_after(self, failure: BrokerError, moment: datetime) -> int:
        """The number of seconds until the next try, after the ``failure`` at this ``moment`` (UTC). Raises it when
        there is to be no other try.
        """
        recent = [one for one in self._failures.get(type(failure), []) if moment - one < OVER]
        self._failures[type(failure)] = [*recent, moment]
        if isinstance(failure, KafkaForbidsError):
            if self._forbidden_since is None or not recent:
                self._forbidden_since = moment
            is_over = moment - self._forbidden_since > OVER
        else:
            is_over = len(recent) >= MOST_FAILURES
        if is_over:
            raise failure
        return min(2 << len(recent), _LONGEST_PAUSE)
