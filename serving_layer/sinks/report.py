"""How far each sink is: `hourline sinks`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from hourline_core.model import Project, Sink
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.times import duration_text
from hourline_core.runtime.announced import announced
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.sink_state import SinkState, read_sink_state, running_sinks
from serving_layer.connection import Connection


@dataclass(frozen=True)
class SinkReport:
    """A sink, and how far it is."""

    sink: str
    metric: str
    target: str
    """`topic`, `webhook`, `command` or `postgresql`."""
    place: str
    """The topic, the address, the command or the table."""
    emit: str
    running: bool
    """Whether a process sends."""
    token: str | None
    """The token of the newest answer of which everything was sent."""
    newest: str
    """The token of the newest answer."""
    lag_seconds: float | None
    """How long ago everything had been sent, if it is not now. 0: it is. None: nothing was ever sent."""
    sent: int
    """The number of changed results that were sent, since the sink was first run in this workspace."""
    gone: int
    """Those of them that say that a result is gone."""
    last_sent: datetime | None
    """When something was sent last (UTC)."""
    problem: str | None
    """Why results are not taken, or why nobody sends."""

    @property
    def lag(self) -> str:
        """The lag in words."""
        if self.lag_seconds is None:
            return "nothing sent yet"
        return duration_text(timedelta(seconds=ceil(self.lag_seconds))) if self.lag_seconds else "none"


def report_sinks(project: Project, clock: Clock = wall_clock) -> list[SinkReport]:
    """All sinks, by name. Raises TableError."""
    if not project.sinks:
        return []
    with Connection(project, clock) as connection:
        newest = connection.token
    runs, problem = lease_holder(project.workspace, "sinks") is not None, None
    if not runs:
        problem = "nobody sends: `hourline up` or `hourline send` does"
    elif announced(project.workspace, "sinks") not in (None, running_sinks(project)):
        problem = "the process that sends has other declarations: `hourline up` starts it again"
    return [_report(project, sink, newest, runs, problem, clock()) for _, sink in sorted(project.sinks.items())]


def _report(project: Project, sink: Sink, newest: str, runs: bool, problem: str | None, now: datetime) -> SinkReport:
    state = read_sink_state(project.workspace, sink.name)
    return SinkReport(
        sink.name,
        sink.metric,
        sink.target,
        sink.place,
        sink.emit,
        runs,
        state.token,
        newest,
        _lag(state, newest, now),
        state.sent,
        state.gone,
        state.last_sent,
        problem or state.reason,
    )


def _lag(state: SinkState, newest: str, now: datetime) -> float | None:
    if state.checked is None:
        return None
    return 0.0 if state.token == newest and not state.failing_since else max(0.0, (now - state.checked).total_seconds())
