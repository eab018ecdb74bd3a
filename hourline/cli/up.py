"""``up``: starts Kafka, the speed layer and the sinks in the background."""

from dataclasses import replace
from pathlib import Path

from hourline.cli.options import AcceptLoss, ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.stop_signals import interrupt_on_sigterm
from hourline_core.model.topics import topic_text


def up(project: ProjectFolder = Path(), workspace: Workspace = None, accept_loss: AcceptLoss = False) -> None:
    """Start Kafka, the speed layer and all sinks. They run in the background. What already runs is not restarted,
    but for sinks that are declared in another way.
    """
    declared = load(project, workspace)
    from hourline_core.runtime.background import SINKS, SPEED, address_of, start, stop
    from hourline_core.runtime.sink_state import running_sinks

    service = replace(SPEED, command=(*SPEED.command, "--accept-loss")) if accept_loss else SPEED
    own_kafka = declared.settings.kafka.bootstrap is None
    started = False

    def on_start() -> None:
        nonlocal started
        started = True
        note(f"{declared.name}: starting {'Kafka and ' if own_kafka else ''}Spark")

    with interrupt_on_sigterm():
        kafka = start(declared, service, on_start, lambda: note("waiting for another `up`, which is starting them"))
    if accept_loss and not started:
        note("the speed layer already runs, as it was started; `hourline down` first, to accept a loss")
    with interrupt_on_sigterm():
        now = running_sinks(declared)
        if address_of(declared, SINKS) not in (None, now):
            stop(declared, SINKS)  # It has other declarations.
        if declared.sinks:
            start(declared, replace(SINKS, command=(*SINKS.command, "--announced", now)))
    read = [topic_text(one.topic) if one.topic else one.place for one in declared.sources.values()]
    topics = ", ".join(dict.fromkeys(filter(None, read)))
    if derived := ", ".join(source.name for source in declared.sources.values() if source.is_derived):
        topics += f", and derives {derived}"
    sinks = f"; results go to {', '.join(declared.sinks)}" if declared.sinks else ""
    stops = "all" if declared.sinks else "both" if own_kafka else "it"
    say(f"up: Kafka at {kafka}, the speed layer reads {topics}{sinks}; `hourline down` stops {stops}")
