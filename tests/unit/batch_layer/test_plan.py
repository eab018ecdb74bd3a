"""Which blocked hours a recompute tries again."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from batch_layer.plan import _share_sessions
from hourline_core.model.session_window import SessionWindow

HOURS = st.lists(st.integers(0, 60), max_size=12, unique=True).map(
    lambda numbers: [datetime(2024, 3, 1, tzinfo=UTC) + timedelta(hours=number) for number in sorted(numbers)]
)


@given(blocked=HOURS, changed=HOURS, gap=st.integers(1, 90), most=st.integers(2, 12))
def test_a_blocked_hour_is_tried_again_if_a_changed_one_is_within_reach(
    blocked: list[datetime], changed: list[datetime], gap: int, most: int
) -> None:
    session = SessionWindow(gap=timedelta(minutes=gap), max_length=timedelta(hours=most))
    near = [hour for hour in blocked if any(abs(hour - one) < session.reach for one in changed)]
    assert _share_sessions(session, blocked, changed) == near
