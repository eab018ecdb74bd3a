"""The origin of a source's records: topics, or a file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class TopicIds(dict[str, str]):
    """The ids of topics by name. That of a topic which was not there at the start is looked up, and remembered."""

    def __init__(self, known: Mapping[str, str], look_up: Callable[[str], str]) -> None:
        super().__init__(known)
        self._look_up = look_up

    def __missing__(self, topic: str) -> str:
        self[topic] = self._look_up(topic)
        return self[topic]


@dataclass(frozen=True)
class Origin:
    """Where a source's records come from."""

    topic_ids: Mapping[str, str]
    """By the name of a topic, Kafka's id of it, or the id of an imported file. An id never changes."""
    cluster: str | None = None
    """The id of the Kafka cluster. None: it is not known, or the records are those of a file."""
    history: bool = False
    """Whether the records are imported history, of which no event is late."""
    goes_on: bool = False
    """Whether further records of the same file follow. The clock waits for them, since a file has no order."""
