"""``topics describe``: the partitions and the configuration of a topic, and how far sources have read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_facts, say_json, say_table
from hourline.cli.topics.readers import next_offsets, readers_of

if TYPE_CHECKING:
    from hourline_core.runtime.topic_facts import TopicFacts


def describe(
    topic: Annotated[str, typer.Argument(help="The name of the topic.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Describe the partitions, configuration and sources of a topic.

    The configuration is what was set for this topic. All else is as the broker has it. The end of a partition is that
    of its committed records. Of each source, it says at which offset it reads on.
    """
    declared = load(project, workspace)
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_facts import describe_topic

    found = describe_topic(reachable_kafka(declared), topic, declared.settings.kafka.options)
    read = {source.name: next_offsets(declared, source, found.id) for source in readers_of(declared, topic)}
    if format is ReportFormat.JSON:
        say_json(_as_json(found, read))
        return
    facts = [("topic", [found.name]), ("id", [found.id])]
    config = [f"{key}={'(secret)' if value is None else value}" for key, value in found.config.items()]
    say_facts([*facts, ("config", config or ["as the broker's"]), ("sources", [", ".join(read) or "none"])])
    say("")
    columns = ["partition", "leader", "replicas", "in sync", "begin", "end"]
    say_table(
        [*columns, *(f"{source} at" for source in read)],
        [
            (
                of.number,
                "none" if of.leader is None else of.leader,
                ", ".join(map(str, of.replicas)),
                ", ".join(map(str, of.in_sync)),
                of.begin,
                of.end,
                *(offsets.get(of.number) for offsets in read.values()),
            )
            for of in found.partitions
        ],
        right=["partition", "leader", "begin", "end", *(f"{source} at" for source in read)],
    )


def _as_json(topic: "TopicFacts", read: dict[str, dict[int, int]]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "config": dict(topic.config),
        "partitions": [
            {
                "partition": of.number,
                "leader": of.leader,
                "replicas": list(of.replicas),
                "in_sync": list(of.in_sync),
                "begin": of.begin,
                "end": of.end,
                "sources": {source: offsets.get(of.number) for source, offsets in read.items()},
            }
            for of in topic.partitions
        ],
    }
