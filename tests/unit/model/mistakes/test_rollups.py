"""A metric over another one has what that has: its measures, its dimensions, and windows made of its panes."""

from pathlib import Path

from tests.support.declaration_mistakes import METRIC, mistakes


def test_a_metric_over_another_one_names_what_that_has(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/over.yaml": "from: m\nmeasures: [m]\ndimensions:\n  - x\n",
        "metrics/nothing.yaml": "from: nm\n",
        "metrics/one.yaml": "from: two\n",
        "metrics/two.yaml": "from: one\n",
        "metrics/three.yaml": "from: two\n",
        "metrics/wrong.yaml": "from: m\nsource: s\n",
        "metrics/over_wrong.yaml": "from: wrong\n",
        "metrics/starts.yaml": "source: s\ndimensions: [window_start: a]\nmeasures: {n: count}\n",
        "metrics/over_starts.yaml": "from: starts\nwindow: 1 day\n",
        "metrics/over_nothing.yaml": "from: m\nmeasures: []\ndimensions: [b, b]\n",
        "metrics/shares.yaml": "source: s\nmeasures: {n: count, share: 'ratio(n, n)'}\n",
        "metrics/over_shares.yaml": "from: shares\nmeasures: [share]\n",
        "metrics/over_text.yaml": "from: m\nmeasures: n\n",
        "metrics/over_source.yaml": "source: over_starts\nmeasures: {n: count}\n",
        "metrics/sql.yaml": "sql: SELECT COUNT(*) AS x FROM m\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/over_nothing.yaml:2: measures: got nothing, allowed is at least one",
        "metrics/over_nothing.yaml:3: dimensions.1: got 'b' again, allowed is each name once",
        "metrics/over_text.yaml:2: measures: got 'n', allowed is a list, such as [origin]",
        "metrics/wrong.yaml:2: source: is not a known key (there is: description, dimensions, from, measures, name, window)",
        "metrics/over_source.yaml:1: source: got 'over_starts', which is no source of this project: it is a metric, and a metric over it has `from: over_starts` in place of `source`",
        "metrics/sql.yaml:1: source: got 'm', which is no source of this project: it is a metric, and a metric over it has `from: m` in place of `source`",
        "metrics/over.yaml:4: dimensions: got 'x', which 'm' does not have",
        "metrics/over.yaml:2: measures: got 'm', which 'm' does not have (there is: n)",
        "metrics/over_shares.yaml:2: measures: got 'share', which needs measures that are left out: add n",
        "metrics/over_starts.yaml:2: window: got windows with 'window_start', which names the window of a result: leave it out",
        "metrics/nothing.yaml:1: from: got 'nm', which is no metric of this project — did you mean 'm'?",
        "metrics/one.yaml:1: from: got 'two', which is over this metric itself (one → two → one), allowed is a metric that leads to a source",
        "metrics/two.yaml:1: from: got 'one', which is over this metric itself (two → one → two), allowed is a metric that leads to a source",
    ]


def test_windows_over_a_metric_are_made_of_its_panes(tmp_path: Path) -> None:
    over = "from: m\nwindow: "
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": f"{METRIC}window: 10m\n",
        "metrics/made.yaml": f"{over}{{size: 1h, every: 20m}}\n",
        "metrics/not_made.yaml": f"{over}15m\n",
        "metrics/over_made.yaml": "from: made\nwindow: {size: 1 day, zone: Asia/Kathmandu}\n",
        "metrics/visits.yaml": f"{over}{{gap: 15m}}\n",
    }
    allowed = "which has panes of 15m, allowed are windows made of the panes of 'm', which have 10m"
    assert mistakes(tmp_path, files) == [
        f"metrics/not_made.yaml:2: window: got '15m', {allowed}",
        "metrics/visits.yaml:2: window: got 'sessions with a gap of 15m, at most 1d long', but 'm' does not keep when sessions begin and end: allowed are sessions over a metric that has sessions itself",
        f"metrics/over_made.yaml:2: window: got '1 day in Asia/Kathmandu', {allowed}",
    ]
