"""The feed of changed hours: what a reader is told, put together, is every hour that changed since it read last."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from serving_layer.change_feed import ChangeFeed, FinalWindow, Step
from serving_layer.query_scope import HourState

BASE = datetime(2024, 3, 1, tzinfo=UTC)
HOUR_STATES = st.builds(
    lambda metric, number, state: HourState(metric, BASE + timedelta(hours=number), state),
    st.sampled_from(["visits", "totals"]),
    st.integers(0, 3),
    st.sampled_from(["provisional", "final"]),
)
STEPS = st.lists(st.none() | st.lists(HOUR_STATES, min_size=1, max_size=3), max_size=8)


@given(steps=STEPS, read=st.integers(0, 8))
def test_a_reader_is_told_the_newest_state_of_each_hour_that_changed_since(
    steps: list[list[HourState] | None], read: int
) -> None:
    feed = ChangeFeed("p0")
    for number, hours in enumerate(steps, start=1):
        assert feed.add(Step(f"p{number}", hours))
    read = min(read, len(steps))
    told = feed.since(feed.find(f"p{read}"))
    missed = steps[read:]
    newest = {one[:2]: one for hours in missed for one in hours or []}
    assert told.position == f"p{len(steps)}"
    assert {one[:2]: one for one in told.hours} == newest and len(told.hours) == len(newest)
    assert told.complete == (None not in missed)


def test_a_reader_that_was_away_too_long_or_reads_first_reads_everything_again() -> None:
    feed = ChangeFeed("p0")
    for number in range(1, 601):
        feed.add(Step(f"p{number}", [HourState("visits", BASE, "final")]))
    for token in (None, "p0", "p88", "p89", "p601"):
        assert not feed.since(feed.find(token)).complete
    assert feed.since(feed.find("p90")).complete


def test_a_reader_is_not_told_that_steps_are_all_if_earlier_ones_of_its_token_are_gone() -> None:
    feed = ChangeFeed("p0")
    for _ in range(511):
        feed.add(Step("p0", [HourState("visits", BASE, "final")]))
    assert feed.since(feed.find("p0")).complete
    feed.add(Step("p0", [HourState("visits", BASE, "revised")]))
    assert not feed.since(feed.find("p0")).complete


def test_the_same_tables_read_again_are_no_step() -> None:
    feed = ChangeFeed("p0")
    assert not feed.add(Step("p0", []))
    assert feed.newest == 0
    assert feed.add(Step("p0", [HourState("visits", BASE, "revised")])), "hours close by wall time, too"


def test_a_window_is_told_once_with_the_token_with_which_it_was_final_last() -> None:
    feed = ChangeFeed("p0")
    for token in ("p1", "p2"):
        feed.add(Step(token, [], [FinalWindow("by_day", BASE, BASE + timedelta(days=1), token)]))
    feed.add(Step("p3", [HourState("visits", BASE, "revised")]))
    assert [one.token for one in feed.since(feed.find("p0")).windows] == ["p2"]


def test_a_reader_is_told_what_has_changed_since_under_the_same_token() -> None:
    feed = ChangeFeed("p0")
    by_time = HourState("visits", BASE, "revised")
    feed.add(Step("p0", [by_time]))
    assert feed.since(feed.find("p0")).hours == [by_time]
