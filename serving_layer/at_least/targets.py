"""Finds the offsets that each source must have counted. What cannot come is refused."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from hourline_core.errors import BrokerError, SourceError, UsageError, did_you_mean
from hourline_core.ledger.counted_offsets import CountedOffsets
from hourline_core.model import Project, Source
from hourline_core.model.topics import matches, topic_labels, topic_text
from serving_layer.at_least.form import AtLeast
from serving_layer.reports.kafka_offsets import Offsets, SourceOffsets, Unknown
from serving_layer.reports.unread import ReadOffsets, offsets_of_known


class NotHeldError(UsageError):
    """An offset that Kafka does not hold. It may in a moment, since its nodes tell each other what they have."""


@dataclass(frozen=True)
class Target:
    """A record that a source must have counted, and with it those before it in its partition."""

    source: str
    topic: str
    topic_id: str | None
    """Kafka's id of the topic. None: Kafka could not be asked, so it is that of the topic that was read last."""
    partition: int
    offset: int
    held_back: bool = False
    """Whether an open transaction held it back when Kafka was asked."""

    def is_counted(self, counted: CountedOffsets | None) -> bool:
        """Whether its source has counted it. ``counted`` is None before the first start of the speed layer."""
        return counted is not None and counted.counts(self.id_in(counted), self.partition, self.offset)

    def id_in(self, counted: CountedOffsets) -> str | None:
        """The id of its topic. None: it is not known."""
        return self.topic_id or counted.topic_ids.get(self.topic)


def sources_reading(project: Project, sources: Collection[str], at_least: AtLeast) -> list[Source]:
    """Those of ``sources``, the ones that a query names, that must have counted something. Raises UsageError for a
    topic that none of them reads, and for a source without topics: what an offset has become of there is not known.
    """
    named = [project.sources[name] for name in sources]
    for source in named:
        if source.is_derived:
            inputs = " and ".join(f"'{name}'" for name in source.input_names)
            raise UsageError(
                f"an answer cannot wait for source '{source.name}', which is {source.origin_text}: leave at_least out, "
                f"or ask for metrics over {inputs}; `hourline status --partitions` shows what is not read yet"
            )
        if source.reads_files:
            raise UsageError(
                f"an answer cannot wait for source '{source.name}', which is {source.origin_text}: leave at_least out; "
                "`hourline status` shows how many files are not read yet"
            )
    if at_least == "now":
        return named
    for topic in {topic for topic, _ in at_least}:
        if any(matches(source.topic, topic) for source in named):
            continue
        others = [source.name for source in project.sources.values() if matches(source.topic, topic)]
        if others:
            used = ", ".join(f"'{source.name}' ({topic_text(source.topic)})" for source in named)
            raise UsageError(
                f"the query does not use source '{others[0]}', which reads topic '{topic}'; it uses {used}: name a "
                "topic of these"
            )
        labels = [label for source in project.sources.values() for label in topic_labels(source.topic)]
        raise UsageError(f"no source reads topic '{topic}'{did_you_mean(topic, labels)}")
    return [source for source in named if any(matches(source.topic, topic) for topic, _ in at_least)]


def find_targets(
    sources: Iterable[Source],
    at_least: AtLeast,
    offsets: Offsets,
    counted: Mapping[str, CountedOffsets | None],
) -> list[Target]:
    """What ``sources`` must have counted. ``offsets`` are those in Kafka, ``counted`` what progress says.

    Raises UsageError for a partition or an offset that Kafka does not hold, SourceError if it is another Kafka than the
    one that was read, BrokerError if Kafka cannot be asked what it holds now.
    """
    found: list[Target] = []
    for source in sources:
        there = offsets[source.name]
        if isinstance(there, SourceOffsets):
            _refuse_other_kafka(source, there, counted[source.name])
            found += _all_of(source, there) if at_least == "now" else _those_of(source, at_least, there)
        elif at_least == "now":
            raise BrokerError(
                f"what Kafka holds now for source '{source.name}' is not known: {there.reason}; name the offsets that "
                "the producer was told, which needs no Kafka, or leave out now"
            )
        else:
            found += [
                Target(source.name, topic, None, partition, offset)
                for (topic, partition), offset in at_least.items()
                if matches(source.topic, topic)
            ]
    return found


def _refuse_other_kafka(source: Source, there: SourceOffsets, counted: CountedOffsets | None) -> None:
    known = offsets_of_known(source, ReadOffsets(cluster=counted.cluster if counted else None), there)
    if isinstance(known, Unknown):
        raise SourceError(known.reason)


def _all_of(source: Source, there: SourceOffsets) -> list[Target]:
    return [
        Target(source.name, topic, there.topic_ids.get(topic), partition, of.end - 1)
        for topic, partitions in there.topics.items()
        for partition, of in partitions.items()
        if of.end > of.earliest
    ]


def _those_of(source: Source, at_least: Mapping[tuple[str, int], int], there: SourceOffsets) -> list[Target]:
    found = []
    for (topic, partition), offset in at_least.items():
        if not matches(source.topic, topic):
            continue
        if topic not in there.topics:
            raise UsageError(f"there is no topic '{topic}' in Kafka{did_you_mean(topic, there.topics)}")
        partitions = there.topics[topic]
        if partition not in partitions:
            raise UsageError(
                f"there is no partition {partition} in topic '{topic}', which has {len(partitions)}, counted from 0: "
                "give the one that the producer was told"
            )
        of = partitions[partition]
        if offset >= of.end + of.held_back:
            raise NotHeldError(
                f"Kafka does not hold offset {offset} of {topic}:{partition}, which ends before "
                f"{of.end + of.held_back}: give the offset that the Kafka at {there.bootstrap} has told the producer "
                'for its record, or wait for what is there now, as by `hourline query "FROM hours" --at-least now`'
            )
        found.append(Target(source.name, topic, there.topic_ids.get(topic), partition, offset, offset >= of.end))
    return found
