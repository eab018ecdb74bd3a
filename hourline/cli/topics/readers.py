"""The sources of a project that read a topic, and how far; and the sinks that send to it."""

from hourline_core.model import Project, Source
from hourline_core.model.topics import matches


def readers_of(project: Project, topic: str) -> list[Source]:
    """The sources that read ``topic``, by their names."""
    return [source for _, source in sorted(project.sources.items()) if matches(source.topic, topic)]


def sinks_of(project: Project, topic: str) -> list[str]:
    """The names of the sinks that send to ``topic``."""
    return [name for name, sink in sorted(project.sinks.items()) if sink.topic == topic]


def next_offsets(project: Project, source: Source, topic_id: str) -> dict[int, int]:
    """By partition, the offset at which ``source`` reads on. Partitions that it has never read are left out."""
    from hourline_core.ledger.counted_offsets import follow
    from hourline_core.ledger.open_progress import find_progress

    if (progress := find_progress(project, source)) is None:
        return {}
    reading = follow(progress, None).readings.get(topic_id)
    return {} if reading is None else reading.next_offsets
