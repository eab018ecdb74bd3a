"""When a replay sends each record."""

import pytest

from hourline.replay.pacing import at_rate, at_speed, choose_pace, wait_until
from hourline_core.errors import UsageError
from tests.support.records import record


class Clock:
    """Time that passes only by waiting for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)


# Pace


def test_a_rate_spreads_records_evenly() -> None:
    pace = at_rate(4)
    assert [pace(record(line)) for line in range(1, 5)] == [0, 0.25, 0.5, 0.75]


def test_a_speed_divides_the_time_between_records_and_sends_those_without_a_time_with_the_one_before() -> None:
    times = ["2013-01-05T14:00:00Z", "2013-01-05T14:30:00Z", None, "garbage", "2013-01-05T17:00:00+02:00"]
    pace = at_speed(3600, "sent_at")
    assert [pace(record(line, at=at)) for line, at in enumerate(times)] == [0, 0.5, 0.5, 0.5, 1]


def test_a_speed_over_a_column_without_times_is_refused() -> None:
    with pytest.raises(UsageError, match="line 7 has none in the column 'carrier'"):
        at_speed(2, "carrier")(record(7, at="UA"))


@pytest.mark.parametrize(
    ("rate", "speed", "order_by", "message"),
    [
        (1, 1, "at", "both --rate 1 and --speed 1"),
        (0, None, None, "--rate 0"),
        (None, -2, "at", "--speed -2"),
        (None, float("nan"), "at", "--speed nan"),
        (None, 2, None, "--order-by"),
    ],
)
def test_a_pace_that_cannot_be_is_refused(
    rate: float | None, speed: float | None, order_by: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        choose_pace(rate, speed, order_by)


def test_waiting_ends_at_its_moment_in_short_steps() -> None:
    clock = Clock()
    wait_until(101.05, clock, clock.wait, lambda: False)
    assert clock.now == pytest.approx(101.05, abs=0.001)
    assert max(clock.waits) <= 0.1
    waits = len(clock.waits)
    wait_until(50, clock, clock.wait, lambda: False)  # long past
    assert len(clock.waits) == waits


def test_waiting_ends_when_it_is_stopped() -> None:
    clock = Clock()
    wait_until(10**9, clock, clock.wait, lambda: len(clock.waits) == 3)
    assert len(clock.waits) == 3
