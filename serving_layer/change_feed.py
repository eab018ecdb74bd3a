"""The feed of changed hours: how each new snapshot differs from the one before it."""

from collections import deque
from dataclasses import dataclass

from serving_layer.changed_hours import keep_changed_hours
from serving_layer.connection import Connection
from serving_layer.query_scope import HourState

_STEPS_KEPT = 512
"""The maximum number of steps that a reader who was away can catch up on."""
_HOURS_TOLD = 2_000
"""The maximum number of hours in one step. A step that changes more hours, such as a backfill of a year, lists none."""


@dataclass(frozen=True)
class Step:
    """A new snapshot."""

    token: str
    hours: list[HourState] | None
    """The hours whose state or numbers may have changed. None: there are too many to list."""


@dataclass(frozen=True)
class Update:
    """What has changed since an earlier snapshot."""

    token: str
    """The token of the newest snapshot."""
    hours: list[HourState]
    """Each hour that changed, once, in its newest state."""
    complete: bool
    """Whether these are all hours that changed; if not, the reader should read everything again."""


def changed_hours(before: Connection, after: Connection) -> list[HourState] | None:
    """The hours whose state or numbers differ, by hour and metric: those that got events, or were recomputed,
    blocked or reset. None: there are too many to list.
    """
    with before.twin() as old, after.twin() as new:
        database = new.attached()
        keep_changed_hours(database, old, new, new.project.metrics)
        rows = database.execute(
            "SELECT metric, hour, state FROM _hours_now SEMI JOIN _changed USING (metric, hour) "
            f"ORDER BY hour, metric LIMIT {_HOURS_TOLD + 1}"
        ).fetchall()
    return [HourState(*row) for row in rows] if len(rows) <= _HOURS_TOLD else None


class ChangeFeed:
    """The last steps, each with its number. For one thread."""

    def __init__(self, token: str) -> None:
        """``token`` is that of the snapshot that the feed begins with."""
        self._steps = deque([Step(token, [])], maxlen=_STEPS_KEPT)
        self.newest = 0
        """The number of the newest step."""

    def add(self, step: Step) -> bool:
        """Append a step. Returns False, and leaves it out, if the tables have not changed."""
        if step.token == self._steps[-1].token and step.hours == []:
            return False
        self._steps.append(step)
        self.newest += 1
        return True

    def find(self, token: str | None) -> int | None:
        """The number of the oldest step with ``token``. None: no step that is kept has it, or an earlier one with it
        may no longer be kept.

        Further ones with that token differ from it without a micro-batch or publication. A client with that token may
        lack the later steps.
        """
        first = self.newest - len(self._steps) + 1
        found = next((number for number, step in enumerate(self._steps, first) if step.token == token), None)
        return None if found == first > 0 else found

    def since(self, number: int | None) -> Update:
        """The changes since the step ``number``. They are incomplete if it is None, or no longer kept."""
        newest = self._steps[-1].token
        if number is None or self.newest - number >= len(self._steps):
            return Update(newest, [], complete=False)
        missed = [step.hours for step in list(self._steps)[len(self._steps) - (self.newest - number) :]]
        latest = {(one.metric, one.hour): one for hours in missed for one in hours or []}
        return Update(newest, list(latest.values()), complete=None not in missed)
