"""Starts the streams anew when they have ended because of Kafka.

A start goes on from progress, whatever has happened before. So streams that have ended need nothing but another start.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from hourline_core.model.hours import Clock
from speed_layer.kafka_watch import KafkaWatch

MOST_FAILURES = 5
"""The maximum number of restarts within ``OVER`` while Kafka answers. Each waits twice as long as the one before."""

OVER = timedelta(minutes=10)
"""Also the time for which Kafka may forbid what it has allowed before."""


def run_again_after_kafka(
    run_streams: Callable[[], list[str]],
    ready: threading.Event,
    watch: KafkaWatch,
    stop: threading.Event,
    say: Callable[[str], None],
    clock: Clock,
    restart_kafka: Callable[[], bool],
) -> list[str]:
    """Call ``run_streams``, and return what it returns. When it raises KafkaAwayError or KafkaForbidsError after it was
    ``ready``, call it again once Kafka answers, however long that takes, unless ``stop`` is set.

    Raises that error when it comes too often while Kafka answers, and KafkaForbidsError when Kafka forbids for too
    long. ``restart_kafka`` says whether it had to start the Kafka of this process anew. ``clock`` is the wall's (UTC).
    """
    restarts: list[datetime] = []
    while True:
        absences = watch.absences
        try:
            return run_streams()
        except (KafkaAwayError, KafkaForbidsError) as error:
            if not ready.is_set():
                raise
            failure, failed = error, clock()
        restarted = restart_kafka()
        watch.wait_for_answer(stop, partial(_give_up, failed, clock))
        if watch.absences == absences or restarted:
            restarts = [*(moment for moment in restarts if failed - moment < OVER), failed]
            if len(restarts) > MOST_FAILURES:
                raise failure
            pause = 2 ** len(restarts)
            say(f"{failure}; the speed layer tries again by itself in {pause} s")
            stop.wait(pause)
        if stop.is_set():
            return []


def _give_up(since: datetime, clock: Clock, reason: BrokerError) -> None:
    """Raise ``reason`` if Kafka forbids something for too long."""
    if isinstance(reason, KafkaForbidsError) and clock() - since > OVER:
        raise reason
