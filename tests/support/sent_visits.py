"""A project of visits with a sink, which is sent as by `hourline send --drain`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import serving_layer
from hourline_core.model import KafkaSettings, Project, Sink
from hourline_core.model.hours import wall_clock
from hourline_core.model.registry import RegistrySettings
from serving_layer.sinks.sender import Sender
from tests.support.result_rows import KEPT
from tests.support.visits import Visit, Visits

KILLED = 9
"""The exit code of a process that dies while it sends."""


def made(folder: Path, kafka: str, registry: str | None = None, **target: Any) -> Visits:
    """A project with a sink called like its folder."""
    visits = Visits(folder, drift=True)
    sink = Sink.model_validate({"name": folder.name, "metric": "loads", **target})
    settings = KEPT.model_copy(update={"kafka": KafkaSettings(bootstrap=kafka)})
    if registry:
        settings = settings.model_copy(update={"registry": RegistrySettings(url=registry)})
    visits.project = replace(visits.project, settings=settings, sinks={sink.name: sink})
    visits.start()
    visits.micro_batch(Visit(0, "a", 5), Visit(0, None, 900), Visit(9, "a", 5), Visit(9, 'ü\n"', 5))
    return visits


def send(project: Project) -> tuple[int, int]:
    """What `hourline send --drain` does."""
    (sink,) = project.sinks.values()
    sender = Sender(project, sink, wall_clock)
    try:
        return sender.send_changes(serving_layer.connect(project))
    finally:
        sender.close()
