"""The hours of the demo while it runs: their answers from the serving layer, and how these change."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from serving_layer import Connection


@dataclass(frozen=True)
class Answer:
    """Hourline's answer for one hour."""

    state: str
    flights: int
    mean_delay: float | None
    """Minutes. None if all flights were cancelled."""


_QUERY = """
    SELECT hour, h.state, coalesce(flights, 0), mean_delay FROM hours h LEFT JOIN traffic USING (hour)
    WHERE kind = 'metric' AND name = 'traffic' ORDER BY hour"""
"""A night without flights has hours, too. The metric has no rows for them."""


class Hours:
    """The hours of the metric ``traffic``. ``refresh`` updates them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.now: dict[datetime, Answer] = {}
        self.last_provisional: dict[datetime, Answer] = {}

    def refresh(self) -> list[str]:
        """Query the hours again, and return a sentence for each change."""
        self.connection.refresh()
        rows = self.connection.sql(_QUERY).fetchall()
        before, self.now = self.now, {hour: Answer(*answer) for hour, *answer in rows}
        self.last_provisional |= {hour: answer for hour, answer in self.now.items() if answer.state == "provisional"}
        return _news(before, self.now)

    @property
    def flights(self) -> int:
        return sum(answer.flights for answer in self.now.values())

    @property
    def joined(self) -> int:
        """The number of flights that are joined with weather, or without."""
        return self._number("SELECT coalesce(sum(flights), 0) FROM winds")

    @property
    def stale(self) -> int:
        """The number of hours that still count a flight without weather, whose weather has come."""
        return self._number("SELECT count(*) FROM hours WHERE kind = 'metric' AND name = 'winds' AND state = 'stale'")

    @property
    def states(self) -> Counter[str]:
        """The number of hours in each state."""
        return Counter(answer.state for answer in self.now.values())

    def _number(self, query: str) -> int:
        ((number,),) = self.connection.sql(query).fetchall()
        return int(number)


def _news(before: dict[datetime, Answer], now: dict[datetime, Answer]) -> list[str]:
    changed = [
        (hour, before[hour], answer) for hour, answer in now.items() if hour in before and before[hour] != answer
    ]
    closed = [hour for hour, old, new in changed if (old.state, new.state) == ("provisional", "final")]
    news = [f"{len(closed)} hours final: {hour_name(closed[0])} to {hour_name(closed[-1])}"] if closed else []
    for hour, old, new in changed:
        if new.state == "revised":
            flights = f"{old.flights} → {new.flights} flights"
            delay = f"mean delay {minutes(old.mean_delay)} → {minutes(new.mean_delay)}"
            news.append(f"{hour_name(hour)} revised: {flights}, {delay}")
        elif old.state == "revised":
            news.append(f"{hour_name(hour)} final again, with {new.flights} flights")
    return news


def hour_name(hour: datetime) -> str:
    """``Jan 2 14:00``."""
    return f"{hour:%b} {hour.day} {hour:%H:%M}"


def minutes(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} min"
