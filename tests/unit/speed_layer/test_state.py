"""A speed layer goes from state to state in the order that is declared, and in no other."""

from itertools import permutations

import pytest

from speed_layer.state import FOLLOWING, Lifecycle, State

_WAYS = {
    State.STOPPED: [],
    State.STARTING: [State.STARTING],
    State.RUNNING: [State.STARTING, State.RUNNING],
    State.AWAY: [State.STARTING, State.RUNNING, State.AWAY],
    State.STOPPING: [State.STARTING, State.STOPPING],
}


def led_to(state: State, changes: list[tuple[State, State]]) -> Lifecycle:
    lifecycle = Lifecycle(lambda now, before: changes.append((before, now)))
    for step in _WAYS[state]:
        lifecycle.enter(step)
    assert lifecycle.state is state
    changes.clear()
    return lifecycle


@pytest.mark.parametrize(("before", "now"), [*permutations(State, 2)])
def test_a_change_is_legal_and_told_or_refused_and_not_done(before: State, now: State) -> None:
    changes: list[tuple[State, State]] = []
    lifecycle = led_to(before, changes)
    if now in FOLLOWING[before]:
        lifecycle.enter(now)
        assert (lifecycle.state, changes) == (now, [(before, now)])
    else:
        with pytest.raises(ValueError, match=f"that is {before.value} cannot be {now.value} next"):
            lifecycle.enter(now)
        assert (lifecycle.state, changes) == (before, [])


@pytest.mark.parametrize("state", State)
def test_a_state_that_is_entered_again_is_not_told(state: State) -> None:
    changes: list[tuple[State, State]] = []
    led_to(state, changes).enter(state)
    assert changes == []


def test_whether_it_has_run_is_known_until_the_next_start() -> None:
    lifecycle = led_to(State.STARTING, [])
    assert not lifecycle.has_run
    for state in (State.RUNNING, State.AWAY, State.STOPPING, State.STOPPED):
        lifecycle.enter(state)
        assert lifecycle.has_run
    lifecycle.enter(State.STARTING)
    assert not lifecycle.has_run
