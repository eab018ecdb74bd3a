"""What the clock of a derived source passes in a micro-batch."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from speed_layer.derived.spans import FIRST_HOUR, Span, hour_at


class Passed(NamedTuple):
    """The clock of a derived source before a micro-batch and after it (UTC). None: it has none yet."""

    before: datetime | None = None
    after: datetime | None = None

    @property
    def hours(self) -> Sequence[Span]:
        """Those of the times in between."""
        if self.after is None or self.after == self.before:
            return ()
        first = hour_at(self.before, timedelta(0)) if self.before else FIRST_HOUR
        return [(first, hour_at(self.after, timedelta(0)))]

    def up_to_now(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Those hours of ``spans`` that the clock has entered."""
        if self.after is None:
            return ()
        now = hour_at(self.after, timedelta(0))
        return [(first, min(last, now)) for first, last in spans if first <= now]
