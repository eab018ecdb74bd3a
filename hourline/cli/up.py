"""``up``: starts Kafka and the speed layer in the background."""

from pathlib import Path

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.stop_signals import interrupt_on_sigterm
from hourline_core.model.topics import topic_text


def up(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Start Kafka and the speed layer in the background, unless they are running."""
    declared = load(project, workspace)
    from hourline_core.runtime.background import SPEED, start

    with interrupt_on_sigterm():
        kafka = start(declared, SPEED, lambda: note(f"{declared.name}: starting Kafka and Spark"))
    topics = ", ".join(dict.fromkeys(topic_text(source.topic) for source in declared.sources.values()))
    say(f"up: Kafka at {kafka}, the speed layer reads {topics}; `hourline down` stops both")
