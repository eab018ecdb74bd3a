"""Sessions that cannot be are refused, and so are sessions over a metric that keeps none."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import METRIC, mistakes


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("{gap: 0s}", "window.gap: got '0s', allowed are whole seconds, at least one"),
        (
            "{gap: 1d, max_length: 90m}",
            "window.max_length: got '1h 30m', allowed are whole hours, such as 24h, at least",
        ),
        (
            "{gap: 2d}",
            "window.gap: got the gap '2d', allowed is at most the maximum length of a session, which is 1d: set max_length",
        ),
        (
            "{gap: 30m, size: 1h}",
            "window.size: got 'size' beside the keys of sessions, allowed are gap and max_length: windows with a size are",
        ),
        ("{max_length: 2h}", "window.gap: is missing"),
        ("{gap: soon}", "window.gap: got 'soon', allowed are durations such as 30s"),
    ],
)
def test_sessions(tmp_path: Path, window: str, said: str) -> None:
    [only] = mistakes(tmp_path, {"metrics/m.yaml": f"{METRIC}window: {window}\n"})
    assert said in only


def test_sessions_over_a_metric_need_its_sessions_and_their_bounds_are_no_other_names(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": f"{METRIC}window: {{gap: 30m}}\n",
        "metrics/hourly.yaml": METRIC,
        "metrics/longer.yaml": "from: m\nwindow: {gap: 45m}\n",
        "metrics/none.yaml": "from: hourly\nwindow: {gap: 1h}\n",
        "metrics/shorter.yaml": "from: m\nwindow: {gap: 20m}\n",
        "metrics/taken.yaml": "source: s\nwindow: {gap: 1h}\nmeasures: {session_end: count}\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/taken.yaml:3: measures.session_end: got the name 'session_end', which Hourline uses for windows: choose another",
        "metrics/none.yaml:2: window: got 'sessions with a gap of 1h, at most 1d long', but 'hourly' does not keep when sessions begin and end: allowed are sessions over a metric that has sessions itself",
        "metrics/shorter.yaml:2: window: got 'sessions with a gap of 20m, at most 1d long', which has panes of 20m, allowed are windows made of the panes of 'm', which have 30m",
    ]
