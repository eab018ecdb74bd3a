"""The states of an hour, by name. ``sql/hour_states.py`` decides which one an hour is in."""

from typing import Literal, get_args

HourStateName = Literal["final", "revised", "provisional", "stale", "incomplete", "blocked", "missing"]
"""The states. The most reliable one is the first."""

WEAKEST_FIRST: tuple[HourStateName, ...] = get_args(HourStateName)[::-1]
UNRELIABLE: tuple[HourStateName, ...] = ("missing", "blocked", "incomplete")
"""The states of hours whose numbers may be wrong or absent."""
