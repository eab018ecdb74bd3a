"""``topics list``: all topics, who reads them, and who sends to them."""

from pathlib import Path

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table
from hourline.cli.topics.readers import readers_of, sinks_of


def list_(project: ProjectFolder = Path(), workspace: Workspace = None, format: Format = ReportFormat.TEXT) -> None:
    """List the topics but Kafka's own, with their sources and sinks.

    The number of records is that of the offsets that a topic holds. Compacted topics, and those with transactions, have
    fewer records.
    """
    declared = load(project, workspace)
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_facts import list_topics

    found = [
        (topic, [source.name for source in readers_of(declared, topic.name)], sinks_of(declared, topic.name))
        for topic in list_topics(reachable_kafka(declared), declared.settings.kafka.options)
    ]
    if format is ReportFormat.JSON:
        say_json(
            [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replication": topic.replication,
                    "records": topic.records,
                    "cleanup_policy": topic.cleanup_policy,
                    "sources": sources,
                    "sinks": sinks,
                }
                for topic, sources, sinks in found
            ]
        )
    elif found:
        numbers = ["partitions", "replication", "records"]
        say_table(
            ["topic", *numbers, "cleanup policy", "sources", "sinks"],
            [
                (
                    *(of.name, len(of.partitions), of.replication, of.records, of.cleanup_policy),
                    *map(", ".join, (sources, sinks)),
                )
                for of, sources, sinks in found
            ],
            right=numbers,
        )
    else:
        say("no topics: `hourline topics create` creates one")
