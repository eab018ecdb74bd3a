"""Asks Kafka all the time whether it answers, so that a person learns within seconds that it is away, and since when.

Spark itself asks for a minute before it gives up, and says nothing meanwhile.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from hourline_core.errors import BrokerError, KafkaAwayError
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.model.topics import matches, names_of
from hourline_core.runtime.kafka_absence import KafkaAbsence, note_absence
from hourline_core.runtime.kafka_admin import FORBIDDEN, KeptAdmin, broker_error
from speed_layer.kafka.awaited_topics import AwaitedTopics
from speed_layer.observer import Observer

_SECONDS_FOR_ANSWER = 5.0
"""The maximum time of one request."""

_SECONDS_UNTIL_AWAY = 10.0
"""A Kafka that does not answer for so long is away. A leader that was killed has a successor by then."""

_SECONDS_BETWEEN = 2.0
"""Between an answer and the next question. A question costs well under a millisecond."""

_SECONDS_BETWEEN_TRIES = 0.2
"""Between two tries of one question."""


class KafkaWatch:
    """A context manager. Within the block, a thread asks the Kafka at ``bootstrap`` for the topics of ``project``: all
    of them must have their leaders. ``awaited`` learns which topics are there.

    ``observer`` is told when Kafka goes, and when it is back; both are also noted in the workspace. ``clock`` is the
    wall's (UTC).
    """

    def __init__(
        self, project: Project, bootstrap: str, clock: Clock, observer: Observer, awaited: AwaitedTopics
    ) -> None:
        self._project = project
        self._bootstrap = bootstrap
        self._clock = clock
        self._observer = observer
        self._awaited = awaited
        self._closed = threading.Event()
        self._asked_to_ask = threading.Event()
        self._asked = 0
        """The number of questions that have been answered, or not."""
        self._noting = threading.Lock()
        self.absences = 0
        """How often Kafka has gone."""
        self.absence: KafkaAbsence | None = None
        """The last one. None: there was none."""
        self.error: BrokerError | None = None
        """What is wrong with Kafka. None: it answers."""

    def __enter__(self) -> Self:
        note_absence(self._project.workspace, None)
        threading.Thread(target=self._run, name="kafka-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread is not waited for: it may be asking a Kafka that does not answer.
        with self._noting:
            self._closed.set()
        self._asked_to_ask.set()

    def until_answer(self, stop: threading.Event) -> Iterator[BrokerError | None]:
        """Yields 10 times a second what is wrong with Kafka (None: nothing), until it has answered a question that was
        asked after this call, or ``stop`` is set.
        """
        enough = self._asked + 2  # one may have been asked before
        while not (self._asked >= enough and self.error is None) and not stop.is_set():
            yield self.error
            self._asked_to_ask.set()
            stop.wait(0.1)

    def _run(self) -> None:
        options = self._project.settings.kafka.options
        asked, patience = self._clock(), time.monotonic() + _SECONDS_UNTIL_AWAY
        kept = KeptAdmin(self._bootstrap, options)
        while not self._closed.is_set():
            try:
                with kept.asking("tell who leads the topics", _SECONDS_FOR_ANSWER) as client:
                    self._ask(client)
                self._note(None, asked)
                self._rest(_SECONDS_BETWEEN)
                asked, patience = self._clock(), time.monotonic() + _SECONDS_UNTIL_AWAY
            except BrokerError as error:
                # A broker may be gone and another one there, or a partition between two leaders.
                if isinstance(error, KafkaAwayError) and time.monotonic() < patience:
                    self._rest(_SECONDS_BETWEEN_TRIES)
                else:
                    self._note(error, asked)
                    self._rest(_SECONDS_BETWEEN)

    def _ask(self, client: AdminClient) -> None:
        """Raise KafkaException or BrokerError unless each topic is there for this user, with all its leaders."""
        topics: set[str] = set()
        for source in self._project.sources.values():
            if source.topic is None:  # It is joined.
                continue
            named = names_of(source.topic)
            listed = named or client.list_topics(timeout=_SECONDS_FOR_ANSWER).topics
            topics |= {name for name in listed if matches(source.topic, name)}
        if not topics:
            return
        awaited = self._awaited.now()  # Kafka may have answered before another one was deleted.
        answers = client.describe_topics(TopicCollection([*topics]), request_timeout=_SECONDS_FOR_ANSWER)
        for topic, answer in answers.items():
            try:
                partitions = answer.result().partitions
            except KafkaException as error:
                if error.args[0].code() in FORBIDDEN:
                    doing = f"describe topic '{topic}'"
                    raise broker_error(error.args[0], [], self._bootstrap, doing, _SECONDS_FOR_ANSWER) from error
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # a deleted topic is no matter of Kafka
                    raise
                awaited -= {topic}
                continue
            if without := [partition.id for partition in partitions if partition.leader is None]:
                raise KafkaAwayError(f"topic '{topic}' partition {without[0]} has no leader at {self._bootstrap}")
        self._awaited.are_there(awaited)

    def _rest(self, seconds: float) -> None:
        self._asked_to_ask.wait(seconds)
        self._asked_to_ask.clear()

    def _note(self, error: BrokerError | None, asked: datetime) -> None:
        """Note an answer to the question that was ``asked`` then, and tell it if it changes anything."""
        with self._noting:
            if self._closed.is_set():
                return
            before, self.error = self.error, error
            if error is not None and before is None:
                self.absences += 1
                self._tell(KafkaAbsence(asked, str(error)))
            elif error is None and before is not None and self.absence:
                self._tell(replace(self.absence, until=self._clock()))
            self._asked += 1

    def _tell(self, absence: KafkaAbsence) -> None:
        self.absence = absence
        # The disk may be full, or nobody may listen any more. The streams do not depend on either.
        with suppress(OSError):
            note_absence(self._project.workspace, absence)
        with suppress(OSError):
            self._observer.kafka_absent(absence)
