"""Gaps: records that Kafka deleted before they were read, by its retention or by an order of somebody.

They are looked for before a stream starts, and when one has failed. Either it stops, or the loss is accepted: a reset
then skips what is gone, and keeps on record what that was. A start looks once more at the offsets that it begins at, so
that nothing is passed which Kafka has deleted meanwhile: see `kafka/read_topics.py`.
"""

from hourline_core.ledger.open_progress import find_progress
from hourline_core.model import Project, Source
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topics import find_topics, topic_offsets
from speed_layer.recovery.lost_records import deleted_ranges
from speed_layer.reset import SourceReset


def find_gaps(project: Project, source: Source, bootstrap: str) -> SourceReset | None:
    """The reset that goes on behind what is gone of the source's topics. None: nothing is gone.

    Raises BrokerError, TableError. The caller holds the lease "speed".
    """
    return SourceReset(project, source, bootstrap, {}) if has_gaps(project, source, bootstrap) else None


def has_gaps(project: Project, source: Source, bootstrap: str) -> bool:
    """Whether Kafka has deleted records of the source before they were read. Raises TableError, and BrokerError if
    Kafka does not say.
    """
    progress, options = find_progress(project, source), project.settings.kafka.options
    if progress is None:
        return False
    ids = KafkaFacts(bootstrap, options, project.name).ids(find_topics(bootstrap, source, options))
    # Nothing was read of a topic that is not there; or it was deleted, which the start refuses.
    topics = {topic_id: topic for topic, topic_id in ids.items() if topic_id is not None}
    return any(
        deleted_ranges(reading, topic_offsets(bootstrap, topics[topic_id], options))
        for topic_id, reading in progress.readings(topics).items()
    )
