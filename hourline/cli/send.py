"""``send``: sends the results of metrics to the sinks. Needs neither Spark nor Java."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note
from hourline.cli.stop_signals import stop_on_signal
from hourline_core.errors import KafkaForbidsError, SinkError, UsageError


def send(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when everything that differs now has been sent.")
    ] = False,
    ready_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
    announced: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Send changed results to the sinks until Ctrl-C. `hourline up` does so in the background. While one process sends,
    another is refused.
    """
    declared = load(project, workspace, makes_workspace=True)
    if not declared.sinks:
        raise UsageError("this project has no sink: a file in sinks/ declares one")
    from hourline_core.runtime.background import announce
    from hourline_core.runtime.lease import lease
    from serving_layer.sinks.run import drain_sinks, run_sinks

    with ExitStack() as held:
        held.enter_context(lease(declared.workspace, "sinks"))
        if drain:
            if reasons := drain_sinks(declared, note):
                error = SinkError("; ".join(f"sink {name}: {reason}" for name, reason in reasons.items()))
                error.retryable = not all(isinstance(reason, KafkaForbidsError) for reason in reasons.values())
                raise error
            return
        stop = held.enter_context(stop_on_signal("stopping after what is being sent"))

        def on_ready() -> None:
            note(f"{declared.name}: sending to {', '.join(declared.sinks)}; Ctrl-C stops")
            if ready_file:
                announce(ready_file, announced)

        run_sinks(declared, note, stop, on_ready)
    note("stopped")
