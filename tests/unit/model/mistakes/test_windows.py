"""Windows that cannot be are refused, and so are names that windows take."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import METRIC, SOURCE, mistakes

SIZES = "allowed are minutes, hours, days, weeks, months and years, such as 5m, 3h, 1 day or 1 month"


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("3", f"window.size: got '3', {SIZES}"),
        ("90s", f"window.size: got '90s', {SIZES}"),
        ("{every: 1h}", "window.size: is missing"),
        ("0h", f"window.size: got '0h', {SIZES}, of at least one minute and at most 100 years"),
        ("101 years", f"window.size: got '101 years', {SIZES}, of at least one minute and at most 100 years"),
        (
            "{size: 1h, every: 3h}",
            "window.every: got every '3h' with the size '1h', allowed is at most the size, so that each event is in a window",
        ),
        (
            "{size: 1 day, every: 1h}",
            "window.every: got every '1h' with the size '1 day', allowed are days or weeks for both; for 24 hours at each hour, the size is 24h",
        ),
        (
            "{size: 1 month, every: 1 week}",
            "window.every: got every '1 week' with the size '1 month', allowed are months or years for both",
        ),
        (
            "{size: 1001h, every: 1h}",
            "window.every: got every '1h' with the size '1001h', which puts an event into 1,001 windows; allowed are 1,000: let them start less often",
        ),
        (
            "{size: 3h, zone: Europe/Paris}",
            "window.zone: got the zone 'Europe/Paris' with the size '3h', allowed is a zone for days, weeks, months and years: minutes and hours are the same in every zone",
        ),
        (
            "{size: 1 day, zone: Europe/Pari}",
            "window.zone: got 'Europe/Pari', allowed are IANA time zones, such as America/New_York — did you mean 'Europe/Paris'?",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(tmp_path: Path, window: str, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": f"{METRIC}window: {window}\n"}) == [f"metrics/m.yaml:3: {said}"]


def test_the_columns_and_views_of_windows_are_no_other_names(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": "source: s\nwindow: 3h\nmeasures: {window_end: count}\n",
        "metrics/n.yaml": "source: s\nwindow: 1 day\nmeasures: {n: count}\n",
        "metrics/n_hours.yaml": "source: s\nmeasures: {window_end: count}\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/m.yaml:3: measures.window_end: got the name 'window_end', which Hourline uses for windows: choose another",
        "metrics/n_hours.yaml:1: name: got 'n_hours', which is the view of the hours of 'n', as that has windows: choose another name",
    ]


def test_expectations_about_windows_want_windows(tmp_path: Path) -> None:
    about = "expectations: [{expect_table_row_count_to_equal: {value: 1}, about: window}]\n"
    said = "expectations.0.about: got 'window', allowed is hour:"
    files: dict[str, str | bytes] = {
        "metrics/daily.yaml": f"{METRIC}window: 1 day\n{about}",
        "metrics/hourly.yaml": METRIC + about,
        "metrics/over.yaml": f"from: daily\n{about}",
        "metrics/sessions.yaml": f"{METRIC}window: {{gap: 30m}}\n{about.replace('}]', ', when: rows >= 2}]')}",
        "metrics/unlike.yaml": "from: daily\nhistory: off\n",
        "sources/s.yaml": SOURCE + about,
    }
    audited = "got it in a metric over another one, which has no audit: declare it in the metric with `source` that 'daily' leads to"
    assert sorted(mistakes(tmp_path, files)) == [
        f"metrics/hourly.yaml:3: {said} the windows of this metric are hours",
        f"metrics/over.yaml:2: expectations: {audited}",
        "metrics/sessions.yaml:4: expectations.0.when: got 'rows >= 2', allowed is no condition, since each session is checked "
        "on its own: remove it, or choose sessions by the parameter row_condition",
        f"metrics/unlike.yaml:2: history: {audited}",
        f"sources/s.yaml:4: {said} a source has no windows; a metric over it may have it",
    ]
