"""The states of many hours in one row: a character for each."""

from collections.abc import Iterable

_SIGNS = {
    "final": ".",
    "provisional": "~",
    "revised": "!",
    "stale": "*",
    "blocked": "x",
    "incomplete": "o",
    "missing": "?",
}
_WITHOUT_METRICS = "-"


def state_row(states: Iterable[str | None]) -> str:
    """A character for each state. None: the hour has no state, since its source has no metric."""
    return "".join(_SIGNS.get(state, _WITHOUT_METRICS) if state else _WITHOUT_METRICS for state in states)


def legend(states: Iterable[str | None]) -> str:
    """The characters of these states, with their names. Final comes first. Empty: there are no states."""
    there = set(states)
    return ", ".join(f"{sign} {state}" for state, sign in _SIGNS.items() if state in there)
