"""How a sink is: a note in the workspace that the process that sends writes, for whoever asks.

<workspace>/run/sinks/<name>.json
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.model import Project, Sink
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import note_file, read_note, write_note


@dataclass(frozen=True)
class SinkState:
    """How a sink is."""

    token: str | None = None
    """The token of the newest answer of which everything was sent. None: none yet."""
    checked: datetime | None = None
    """When everything had been sent last (UTC). None: never."""
    sent: int = 0
    """The number of changed results that were sent, since the sink was first run in this workspace."""
    gone: int = 0
    """Those of ``sent`` that say that a result is gone."""
    last_sent: datetime | None = None
    """When something was sent last (UTC). None: nothing was."""
    failing_since: datetime | None = None
    """Since when results are not taken (UTC). None: they are."""
    reason: str | None = None
    """Why they are not taken."""
    running: bool = False
    """Whether a process has begun to send until it is stopped, and has not stopped by itself."""


@dataclass(frozen=True)
class SinkProblem:
    """Why the results of a sink do not arrive."""

    sink: str
    reason: str
    since: datetime | None
    """Since when (UTC). None: nothing was ever sent."""


_TIMES = ("checked", "last_sent", "failing_since")


def write_sink_state(workspace: Path, sink: str, state: SinkState) -> None:
    """Note how a sink is. A full disk stops nobody for the sake of this note."""
    times = {name: moment.isoformat(timespec="seconds") for name in _TIMES if (moment := getattr(state, name))}
    with suppress(OSError):
        write_note(_file(workspace, sink), {**vars(state), **times})


def read_sink_state(workspace: Path, sink: str) -> SinkState:
    """How a sink was when it was noted last."""
    said = None
    with suppress(OSError):
        said = read_note(_file(workspace, sink))
    if said is None:
        return SinkState()
    times = {name: datetime.fromisoformat(said[name]) for name in _TIMES if said.get(name)}
    known = {name: said[name] for name in vars(SinkState()) if name in said}
    return SinkState(**{**known, **times})


def find_sink_problem(workspace: Path, sink: Sink, token: str) -> SinkProblem | None:
    """Why the results of a sink, as they are in the answer with ``token``, do not arrive. None: they do, or nobody has
    told it to send them.
    """
    state = read_sink_state(workspace, sink.name)
    if state.running and lease_holder(workspace, "sinks") is None:
        return SinkProblem(sink.name, "its process has ended, and nobody told it to", state.checked)
    if state.reason:
        return SinkProblem(sink.name, state.reason, state.failing_since)
    if state.running and state.checked and state.token != token:
        return SinkProblem(sink.name, "it has not sent what has changed since", state.checked + sink.interval)
    return None


def _file(workspace: Path, sink: str) -> Path:
    return note_file(workspace, f"sinks/{sink}")


def running_sinks(project: Project) -> str:
    """What a process says that sends to the sinks of ``project``. Another text means that it has other declarations."""
    registry = project.settings.registry
    declared = [*project.sinks.values(), project.settings.kafka, *([registry] if registry else [])]
    # Secrets are among them, and are not in the representation of a declaration.
    texts = [one.model_dump_json() for one in declared] + [repr(project.all_metrics)]
    number = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
    return f"{', '.join(project.sinks)} ({number})"
