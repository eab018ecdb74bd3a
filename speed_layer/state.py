"""The states of a speed layer, and which one may follow which."""

from collections.abc import Callable, Mapping
from enum import Enum


class State(Enum):
    """What a speed layer does."""

    STARTING = "starting"
    """Its first streams are started. A failure ends it."""
    RUNNING = "running"
    """Its streams run, or are started anew for another set of topics or behind lost records."""
    AWAY = "away"
    """Its streams have ended because of Kafka. They are started again once Kafka answers."""
    STOPPING = "stopping"
    """Its streams end after the commits that run."""
    STOPPED = "stopped"
    """No stream of it runs. It is in this state before and after each run."""


FOLLOWING: Mapping[State, frozenset[State]] = {
    State.STARTING: frozenset({State.RUNNING, State.STOPPING}),
    State.RUNNING: frozenset({State.AWAY, State.STOPPING}),
    State.AWAY: frozenset({State.RUNNING, State.STOPPING}),
    State.STOPPING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset({State.STARTING}),
}
"""By state, the legal next ones."""


class Lifecycle:
    """The state of one speed layer. ``changed`` is called after each change, with the new state and the one before."""

    def __init__(self, changed: Callable[[State, State], None]) -> None:
        self._changed = changed
        self._entered: set[State] = set()
        """The states since it was last STARTING."""
        self.state = State.STOPPED

    @property
    def has_run(self) -> bool:
        """Whether it has been RUNNING since it was last STARTING."""
        return State.RUNNING in self._entered

    def enter(self, state: State) -> None:
        """Enter ``state``; does nothing if it is the state of now. Raises ValueError if it may not follow that one."""
        before = self.state
        if state is before:
            return
        if state not in FOLLOWING[before]:
            allowed = " or ".join(sorted(following.value for following in FOLLOWING[before]))
            raise ValueError(f"a speed layer that is {before.value} cannot be {state.value} next, only {allowed}")
        self._entered = {state} if state is State.STARTING else self._entered | {state}
        self.state = state
        self._changed(state, before)
