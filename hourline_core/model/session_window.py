"""The declared sessions of a metric: a gap and a maximum length."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from pydantic import model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.hours import HourRange
from hourline_core.model.measure import Measure
from hourline_core.model.scratch_columns import EVENT_TIME
from hourline_core.model.times import Duration, duration_text
from hourline_core.model.windows import HOURLY

_SECOND = timedelta(seconds=1)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

SESSION_BOUNDS = {
    name: Measure.model_construct(kind=kind, argument=f"`{EVENT_TIME}`")
    for name, kind in (("session_start", "min"), ("session_end", "max"))
}
"""What the tables of a session metric have beside its measures: the times of the first and last event of each row."""


class SessionWindow(Declaration):
    """Sessions: the events of one group, each at most `gap` after the one before.

    A query joins them from stored parts, as it does for all windows. A part has the events of one group in one pane. A
    pane is no longer than the gap, so the events of a part always belong to one session. Parts that are at most the gap
    apart are joined.
    """

    gap: Duration
    """The longest time between two successive events of a session, in whole seconds, such as `30m`. Two events exactly
    this far apart are in one session.
    """

    max_length: Duration = timedelta(hours=24)
    """The maximum length of a session, in whole hours. A session that would be longer is cut at each multiple of it
    since 1970 in UTC: with `24h`, at midnight.
    """

    is_hour: ClassVar[bool] = False
    """Whether these are the hours of UTC."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_keys(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if key not in cls.model_fields:
                raise refuse(
                    f"got {describe(key)} beside the keys of sessions, allowed are gap and max_length: "
                    "windows with a size are no sessions",
                    key,
                )
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.gap < _SECOND or self.gap % _SECOND:
            raise refuse(f"got '{duration_text(self.gap)}', allowed are whole seconds, at least one", "gap")
        if not self.max_length or self.max_length % HOURLY.size:
            raise refuse(
                f"got '{duration_text(self.max_length)}', allowed are whole hours, such as 24h, at least one",
                "max_length",
            )
        if self.gap > self.max_length:
            raise refuse(
                f"got the gap '{duration_text(self.gap)}', allowed is at most the maximum length of a session, "
                f"which is {duration_text(self.max_length)}: set max_length",
                "gap",
            )
        return self

    @property
    def pane(self) -> timedelta:
        """The length of the parts that the layers keep states of: the greatest that divides an hour and is at most the
        gap.
        """
        hour, gap = HOURLY.size // _SECOND, self.gap // _SECOND
        return max(size for size in range(1, hour + 1) if hour % size == 0 and size <= gap) * _SECOND

    @property
    def reach(self) -> timedelta:
        """More than the distance of any two hours in which an event could join one session: the maximum length, the gap
        on either side, and an hour.
        """
        return self.max_length + 2 * self.gap + HOURLY.size

    def around(self, hours: HourRange) -> HourRange:
        """The hours that the sessions depend on which an event in ``hours`` could join. A chain that comes from before,
        or goes on after, is long enough in them to be cut, as it is in all hours.
        """
        return HourRange(
            hours.start - min(self.reach, hours.start - _FIRST), hours.end + min(self.reach, _LAST - hours.end)
        )

    def __str__(self) -> str:
        return f"sessions with a gap of {duration_text(self.gap)}, at most {duration_text(self.max_length)} long"
