"""``speed``: runs the speed layer in the foreground."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import AcceptLoss, ProjectFolder, Workspace, load
from hourline.cli.output import note
from hourline.cli.stop_signals import stop_on_signal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hourline_core.model import Project
    from hourline_core.runtime.file_lock import HeldLock


def speed(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when everything in the topics has been processed.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Warm up, wait, and take over when the running speed layer ends."),
    ] = False,
    accept_loss: AcceptLoss = False,
    ready_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the speed layer until Ctrl-C. Unless the settings name a Kafka, an embedded one runs with it."""
    declared = load(project, workspace, makes_workspace=True)
    from hourline.cli.speed_report import SpeedReport
    from hourline_core.compute.check import refuse_unresolved
    from hourline_core.runtime.kafka import kafka_of
    from hourline_core.runtime.lease import lease
    from hourline_core.runtime.speed_end import noting_end
    from hourline_core.storage.durable import syncing
    from speed_layer.spark_session import speed_session, warm_up
    from speed_layer.speed_layer import SpeedLayer

    with stop_on_signal("stopping after the commit that runs") as stop, ExitStack() as held:
        if standby:
            spark, lock = _stand_by(declared, stop, held)
            declared = load(project, workspace)  # the project as it is now, not as it was when the wait began
            refuse_unresolved(spark, declared)
        else:
            lock = held.enter_context(lease(declared.workspace, "speed"))
        held.enter_context(noting_end(declared.workspace))
        kafka = held.enter_context(kafka_of(declared, join=False, give_up=stop.is_set))

        if not standby:
            note(f"{declared.name}: starting Spark, with Kafka at {kafka.address}")
            spark = held.enter_context(speed_session(declared))
            if not (drain or stop.is_set()):  # a warm-up takes seconds
                warm_up(spark, declared)
        kafka.wait()
        held.enter_context(syncing(on=declared.settings.speed.fsync))
        report = SpeedReport(lock, kafka.address, ready_file)
        given_up = SpeedLayer(spark, declared, kafka, report, drain=drain, accept_loss=accept_loss).run(stop)
    if given_up:
        note(f"Kafka at {kafka.address} gave no more records of {', '.join(given_up)}; the next start reads them again")
    note("drained" if drain and not stop.is_set() else "stopped")


def _stand_by(project: "Project", stop: threading.Event, held: ExitStack) -> "tuple[SparkSession, HeldLock]":
    """Warm up and wait for the speed layer's lease. ``held`` then holds the session and the lease, which are returned.

    Raises typer.Exit when ``stop`` is set before.
    """
    from hourline_core.runtime.lease import lease
    from speed_layer.spark_session import speed_session, warm_up

    with lease(project.workspace, "standby"):
        note(f"{project.name}: starting Spark")
        spark = held.enter_context(speed_session(project))
        warm_up(spark, project)

        def waiting() -> None:
            if stop.is_set():
                note("stopped")
                raise typer.Exit
            spark.conf.get("spark.app.name")  # It fails when its Java process has ended. Then this is no standby.

        note("standing by; Ctrl-C stops")
        lock = held.enter_context(lease(project.workspace, "speed", waiting))
    note("taking over")
    return spark, lock
