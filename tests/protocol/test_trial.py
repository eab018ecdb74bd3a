"""Expectations are tried on past hours without a trace, and what is suggested from weeks passes on them, and finds the
hours that are not like them.
"""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from batch_layer.audit import trial as trials
from batch_layer.audit.suggestions.as_yaml import write_suggestion
from batch_layer.audit.suggestions.suggest import suggest_for_metric, suggest_for_source
from batch_layer.audit.trial import Trial, try_on_events, try_on_results
from hourline_core.errors import UsageError
from hourline_core.model import History, Project, Volume
from hourline_core.model.hours import HourRange, parse_hour, wall_clock
from hourline_core.model.trial import with_expectations
from tests.support.bare_tables import METRICS, SOURCE, BareTables, hour

PAST = History(days=7, learning=4)
TOTALS = METRICS["totals"].model_copy(update={"history": PAST})
CLICKS = SOURCE.model_copy(update={"volume": Volume(history=PAST)})
NEW = 24 * 10
"""The first hour after the days that suggestions are made from."""
SEEN, LATER = HourRange(hour(0), hour(NEW)), HourRange(hour(NEW), hour(NEW + 24))
DOUBLED, HALVED, EMPTIED = hour(NEW + 10), hour(NEW + 13), hour(NEW + 16)


@dataclass
class Feed:
    """Ten days of a feed, what was suggested from them, and a day on which three hours are not like them."""

    project: Project
    for_metric: Path
    for_source: Path


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    folder, chance = tmp_path_factory.mktemp("feed"), random.Random(22)  # noqa: S311
    counts = {number: _usual(number, chance) for number in range(NEW + 24)}
    for moment, factor in ((DOUBLED, 2.0), (HALVED, 0.5), (EMPTIED, 0.0)):
        number = next(number for number in counts if hour(number) == moment)
        counts[number] = int(counts[number] * factor)
    tables = BareTables(folder, [*(n for n, count in counts.items() for _ in range(count)), NEW + 26])
    tables.project = replace(tables.project, sources={"clicks": CLICKS}, metrics={**METRICS, "totals": TOTALS})
    tables.start()
    tables.micro_batch(sum(count for number, count in counts.items() if number < NEW) + 1)
    tables.publish(*range(NEW))
    for_metric, for_source = folder / "metric.yaml", folder / "source.yaml"
    for_metric.write_text(write_suggestion(TOTALS, suggest_for_metric(tables.project, TOTALS, 4, wall_clock)))
    for_source.write_text(write_suggestion(SOURCE, suggest_for_source(tables.project, CLICKS, 4, wall_clock)))
    tables.micro_batch(len(tables.hours))
    tables.publish(*range(NEW, NEW + 24))
    return Feed(tables.project, for_metric, for_source)


def _usual(number: int, chance: random.Random) -> int:
    """No events at night, most at noon, and a little left to chance."""
    of_day = number % 24
    return 0 if of_day < 5 else round((20 + 4 * min(of_day - 4, 24 - of_day)) * chance.uniform(0.96, 1.04))


def results(project: Project, hours: HourRange) -> Trial:
    return try_on_results(project, project.metrics["totals"], hours, wall_clock, lambda total: lambda done: None)


def events(project: Project, hours: HourRange) -> Trial:
    return try_on_events(project, project.sources["clicks"], hours, wall_clock, lambda total: lambda done: None)


def would_be(trial: Trial, outcome: str) -> set[object]:
    return {parse_hour(text) for text in trial.hours_that_would_be(outcome)}


def test_what_is_suggested_for_a_metric_passes_on_its_hours_and_finds_other_hours(feed: Feed) -> None:
    project = with_expectations(feed.project, TOTALS, feed.for_metric)
    seen = results(project, SEEN)
    assert (len(seen.hours), would_be(seen, "blocked"), would_be(seen, "warned")) == (NEW, set(), set())
    assert would_be(results(project, LATER), "blocked") == {DOUBLED, HALVED, EMPTIED}


def test_what_is_suggested_for_a_source_passes_on_its_hours_and_finds_other_hours(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its volume alone needs no Spark."""
    monkeypatch.delattr(trials, "spark_session")
    project = with_expectations(feed.project, CLICKS, feed.for_source)
    assert len(project.sources["clicks"].expectations) > 1
    volume = project.sources["clicks"].model_copy(update={"expectations": []})
    project = replace(project, sources={"clicks": volume})
    seen = events(project, SEEN)
    # A source's hours begin with its first event.
    assert (len(seen.hours), would_be(seen, "blocked"), would_be(seen, "warned")) == (NEW - 5, set(), set())
    assert would_be(events(project, LATER), "blocked") == {DOUBLED, HALVED, EMPTIED}


def test_a_trial_changes_no_table(feed: Feed) -> None:
    def files() -> set[Path]:
        return set(Path(feed.project.tables).rglob("*"))

    before = files()
    found = results(with_expectations(feed.project, TOTALS, feed.for_metric), LATER)
    assert found.findings
    assert files() == before


def test_a_trial_tells_where_nothing_is_published_and_where_a_condition_does_not_hold(
    feed: Feed, tmp_path: Path
) -> None:
    file = tmp_path / "thin.yaml"
    file.write_text(
        'expectations:\n  - expect_column_values_to_be_between: {column: n, max_value: 30}\n    when: "hour_of_day < 12"\n'
        "history: off\n"
    )
    found = results(with_expectations(feed.project, TOTALS, file), HourRange(hour(0), hour(24)))
    applied = {parse_hour(one.hour).hour for one in found.findings if one.applied}
    assert applied == set(range(5, 12))
    assert {parse_hour(one.hour).hour for one in found.findings if not one.applied} == set(range(12, 24))
    assert {parse_hour(one.hour).hour for one in found.findings if not one.success} == set(range(7, 12))
    with pytest.raises(UsageError, match="there is no published hour in 2014"):
        results(feed.project, HourRange(hour(0).replace(year=2014), hour(1).replace(year=2014)))


def test_too_few_hours_suggest_nothing(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [*range(100), 130])
    tables.start()
    with pytest.raises(UsageError, match="metric 'totals' has no published hours"):
        suggest_for_metric(tables.project, TOTALS, 4, wall_clock)
    tables.micro_batch(101)
    tables.publish(*range(100))
    with pytest.raises(UsageError, match=r"'totals' has 100 published hours in its last 4 week\(s\), 100 of them with"):
        suggest_for_metric(tables.project, TOTALS, 4, wall_clock)
