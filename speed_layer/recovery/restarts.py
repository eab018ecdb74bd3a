"""Starts the streams again when they have ended because of Kafka.

A start goes on from progress, whatever has happened before. So streams that have ended need nothing but another start.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from hourline_core.model.hours import Clock
from speed_layer.kafka.kafka_watch import KafkaWatch

MOST_FAILURES = 5
"""The maximum number of restarts within ``OVER`` while Kafka answers. Each waits twice as long as the one before."""

OVER = timedelta(minutes=10)
"""Also the time for which Kafka may forbid what it has allowed before."""

_LONGEST_PAUSE = 60
"""In seconds."""


def run_again_after_kafka(
    run_streams: Callable[[], list[str]],
    ready: threading.Event,
    watch: KafkaWatch,
    stop: threading.Event,
    say: Callable[[str], None],
    log: Callable[[Exception], object],
    clock: Clock,
    revive_kafka: Callable[[], bool],
) -> list[str]:
    """Call ``run_streams``, and return what it returns. When it raises KafkaAwayError or KafkaForbidsError after it was
    ``ready``, call it again once Kafka answers, however long that takes, unless ``stop`` is set.

    Raises that error when it comes too often while Kafka answers, and KafkaForbidsError when Kafka forbids for too
    long. ``log`` gets each error that is survived. ``revive_kafka`` is called 10 times a second while Kafka is waited
    for: it says whether it had to start the Kafka of this process again. ``clock`` is the wall's (UTC).
    """
    patience = _Patience()

    def wait_for_kafka(failure: BrokerError, absences: int) -> int:
        """Wait until Kafka answers. Returns the number of seconds to wait then."""
        failed, pause = clock(), 0

        def look(reason: BrokerError | None) -> None:
            nonlocal pause
            if isinstance(reason, KafkaForbidsError) and clock() - failed > OVER:
                raise reason
            if revive_kafka():
                pause = patience.pause_after(failure, clock())

        watch.wait_for_answer(stop, look)
        answers_all_along = watch.absences == absences and not pause
        return patience.pause_after(failure, failed) if answers_all_along and not stop.is_set() else pause

    while True:
        absences = watch.absences
        try:
            return run_streams()
        except (KafkaAwayError, KafkaForbidsError) as error:
            if not ready.is_set():
                raise
            failure = error
        if not stop.is_set():
            log(failure)
            pause = wait_for_kafka(failure, absences)
            if pause and not stop.is_set():
                say(f"{failure}; the speed layer tries again by itself in {pause} s")
                stop.wait(pause)
        if stop.is_set():
            return []


class _Patience:
    """How often streams may fail while Kafka answers, and for how long Kafka may forbid what they need."""

    def __init__(self) -> None:
        self._failures: dict[type[BrokerError], list[datetime]] = {}
        self._forbidden_since: datetime | None = None

    def pause_after(self, failure: BrokerError, moment: datetime) -> int:
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
