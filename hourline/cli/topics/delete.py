"""``topics delete``: deletes a topic with its records."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.topics.readers import readers_of, sinks_of
from hourline_core.errors import UsageError
from hourline_core.model import Project


def delete(
    topic: Annotated[str, typer.Argument(help="The name of the topic.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Also delete a topic of a source, with the records that it has not read, or the topic of a sink.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the topic's name again.")] = False,
) -> None:
    """Delete a topic with all of its records, for good.

    Archived records stay. A topic that a source reads, or that a sink sends to, is refused without
    --accept-loss.
    """
    declared = load(project, workspace)
    if not accept_loss:
        _refuse_loss(declared, topic)
    if not (yes or sys.stdin.isatty()):
        raise UsageError("there is no terminal to ask for confirmation; add --yes to delete the topic")
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_changes import delete_topic
    from hourline_core.runtime.topic_facts import describe_topic

    kafka, options = reachable_kafka(declared), declared.settings.kafka.options
    found = describe_topic(kafka, topic, options)
    if found.is_internal:
        raise UsageError(f"topic '{topic}' is one of Kafka's own, which nobody deletes")
    if not yes:
        many = "an unknown number of" if found.records is None else f"{found.records:,}"
        say(f"topic '{topic}' has {len(found.partitions):,} partition(s) with {many} records, which will be gone")
        if typer.prompt("Type its name to delete it", default="", show_default=False) != topic:
            note("nothing was changed")
            raise typer.Exit(1)
        if describe_topic(kafka, topic, options).id != found.id:
            raise UsageError(f"topic '{topic}' was recreated since you were asked, so it was not deleted")
    delete_topic(kafka, topic, options)
    say(f"topic '{topic}' was deleted")


def _refuse_loss(project: Project, topic: str) -> None:
    if readers := readers_of(project, topic):
        named = ", ".join(f"'{source.name}'" for source in readers)
        raise UsageError(
            f"topic '{topic}' is read by source {named}; add --accept-loss to delete it "
            "with the records that were not read yet"
        )
    if sinks := sinks_of(project, topic):
        raise UsageError(
            f"sink '{sinks[0]}' sends to topic '{topic}'; add --accept-loss to delete it: "
            "the sink then sends all results again, to a new topic"
        )
