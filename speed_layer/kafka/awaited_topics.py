"""The topics that were deleted under a running speed layer, whose sources go on with the new ones: `on_recreate:
continue`. Such a source waits for its topic, and the others are read on.
"""

import threading
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock
from hourline_core.model.topics import names_of
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topic_absence import note_absent_topics
from speed_layer.kafka.continuity import Continuity, last_read
from speed_layer.observer import Observer


class AwaitedTopics:
    """Which of the topics of ``project`` are awaited; also noted in the workspace.

    ``observer`` is told when one is there again. ``clock`` is the wall's (UTC). Threads may share it.
    """

    def __init__(self, project: Project, clock: Clock, observer: Observer) -> None:
        self._project = project
        self._clock = clock
        self._observer = observer
        self._since: dict[str, datetime] = {}
        self._changing = threading.Lock()
        self._note()

    def now(self) -> frozenset[str]:
        """The topics that are awaited."""
        with self._changing:
            return frozenset(self._since)

    def sources(self) -> list[Source]:
        """The sources that can be read: they do not name a topic that is awaited."""
        awaited = self.now()
        return [source for source in self._project.sources.values() if awaited.isdisjoint(names_of(source.topic))]

    def look(self, bootstrap: str) -> None:
        """Await the topics that are deleted, and may be recreated while their source is read. Raises BrokerError,
        TableError, and SourceError if it is another Kafka: there they were never deleted.
        """
        going_on = [source for source in self._project.sources.values() if source.on_recreate == "continue"]
        kafka = KafkaFacts(bootstrap, self._project.settings.kafka.options, self._project.name)
        ids = kafka.ids({name for source in going_on for name in names_of(source.topic)})
        missing = {name for name, topic_id in ids.items() if topic_id is None}
        for source in going_on:
            if not missing.isdisjoint(names_of(source.topic)):
                Continuity(source, kafka, last_read(self._project, source)).refuse_other_cluster()
        moment = self._clock()
        with self._changing:
            self._since = {name: self._since.get(name, moment) for name in missing}
            self._note()

    def are_there(self, topics: Collection[str]) -> None:
        """Await ``topics`` no more. Those that are not awaited do not matter."""
        with self._changing:
            back = sorted(self._since.keys() & set(topics))
            for topic in back:
                del self._since[topic]
            if back:
                self._note()
        for topic in back:
            with suppress(OSError):  # Nobody may listen any more.
                self._observer.topic_is_back(topic)

    def _note(self) -> None:
        with suppress(OSError):  # The disk may be full. The streams do not depend on it.
            note_absent_topics(self._project.workspace, self._since)
