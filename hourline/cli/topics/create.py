"""``topics create``: a new topic."""

from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load_settings_alone
from hourline.cli.output import say
from hourline_core.errors import UsageError


def create(
    topic: Annotated[str, typer.Argument(help="The name of the topic.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="The number of partitions.", show_default="the broker's")
    ] = None,
    replication: Annotated[
        int | None, typer.Option(min=1, help="The number of copies of each partition.", show_default="the broker's")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Such as cleanup.policy=compact. May be repeated."),
    ] = None,
) -> None:
    """Create a topic.

    `hourline up` creates the topics that sources name. So this is needed for other settings, or for other topics.
    """
    declared = load_settings_alone(project, workspace)
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_changes import create_topic

    settings = _settings(config or [])
    made = create_topic(
        reachable_kafka(declared), topic, declared.settings.kafka.options, partitions, replication, settings
    )
    say(f"topic '{topic}' was created with {made:,} partition(s)")


def _settings(texts: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"got --config {text}, want KEY=VALUE, such as cleanup.policy=compact")
        if key in settings:
            raise UsageError(f"got --config {key} twice, allowed is each key once")
        settings[key] = value
    return settings
