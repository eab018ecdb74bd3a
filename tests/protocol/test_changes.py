"""What has changed since an earlier answer: applied to it, the changes give the later one, whatever happened between."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from batch_layer.maintenance import Maintenance
from hourline_core.errors import UsageError
from hourline_core.model import BatchSettings, Project, Settings
from speed_layer.commit.maintenance import maintain_source
from tests.protocol.test_rollups import with_rollups
from tests.support.examples import examples
from tests.support.result_rows import KEPT, Answer, apply_changes, rows_of
from tests.support.visit_strategies import micro_batches
from tests.support.visits import Visit, Visits, hour
from tests.support.window_oracle import parse_window

HOURS = st.integers(200, 210)
VISITS = micro_batches(HOURS, most=4)
RECOMPUTES = st.tuples(st.sets(HOURS, min_size=1, max_size=6), st.sets(HOURS, max_size=2))
MAINTAIN, FORGET, RESTART = "maintain", "forget", "restart"
STEPS = st.lists(st.one_of(VISITS, RECOMPUTES, st.sampled_from([MAINTAIN, FORGET, RESTART])), min_size=2, max_size=5)
WINDOWS = st.sampled_from(["1h", "{size: 6h, every: 2h}", "1 day", "{size: 90m, every: 20m}", "{gap: 30m}"])
ROLLUPS: dict[str, Mapping[str, object]] = {
    "by_page": {"dimensions": ["page"], "measures": ["visits", "mean_ms", "pages"]},
    "all_of_day": {"dimensions": [], "measures": ["visits", "worst"], "window": parse_window("1 day")},
}


def do(visits: Visits, step: Any) -> None:
    match step:
        case list():
            visits.micro_batch(*step)
        case tuple():
            passed, blocked = step
            visits.publish(*sorted(passed | blocked), blocked=blocked)
        case "maintain":
            maintain_source(visits.project, visits.source_tables)
            visits.start()
        case "forget":  # as if the earlier rows of provisional were too old to be kept
            maintain_source(visits.project, visits.source_tables, kept_hours=0)
            list(Maintenance(visits.project).run())
            visits.start()
        case "restart":
            visits.start()


def answer(connection: serving_layer.Connection) -> Answer:
    return {name: rows_of(connection, name) for name in connection.project.all_metrics if name != "unseen"}


def changes(project: Project, since: str, to: str | None = None) -> list[dict[str, Any]]:
    with serving_layer.connect(project, since=since, as_of=to) as connection:
        found: list[dict[str, Any]] = connection.sql("FROM changes").to_arrow_table().to_pylist()
    return found


@settings(max_examples=examples(2))
@given(steps=STEPS, window=WINDOWS)
def test_applying_the_changes_to_an_answer_gives_a_later_one(steps: list[Any], window: str) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder), window, drift=True)
        visits.project = replace(visits.project, settings=KEPT)
        visits.start()
        project = with_rollups(visits.project, **(ROLLUPS if window == "1h" else {}))
        visits.micro_batch(Visit(205, "a", 5))
        answers: list[tuple[str, Answer]] = []
        for step in [None, *steps]:
            do(visits, step)
            with serving_layer.connect(project) as connection:
                answers.append((connection.token, answer(connection)))
        token, newest = answers[-1]
        for since, earlier in answers[-3::-2]:
            found = changes(project, since)
            assert apply_changes(found, earlier) == newest
            assert found == [] or since != token
        # Between two tokens of the past, unless the later one needs rows that are no longer kept.
        middle, later = answers[len(answers) // 2]
        try:
            assert apply_changes(changes(project, answers[0][0], middle), answers[0][1]) == later
        except UsageError as error:
            assert "only kept for" in str(error)


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    visits = Visits(tmp_path, drift=True)
    visits.project = replace(visits.project, settings=KEPT)
    visits.start()
    visits.micro_batch(Visit(0, "a", 5), Visit(0, "b", 900), Visit(9, "a", 5))
    return visits


def token(visits: Visits) -> str:
    with serving_layer.connect(visits.project) as connection:
        return connection.token


def told(visits: Visits, since: str) -> list[tuple[Any, ...]]:
    """The changes of ``visits`` and ``worst`` in short."""
    return [
        (
            one["window_start"],
            *dict(one["dimensions"] or {}).values(),
            *(one[name] for name in ("change", "measure", "before", "after")),
            *one["causes"],
        )
        for one in changes(visits.project, since)
        if one["measure"] in (None, "visits", "worst")
    ]


def test_late_and_new_events_are_told_apart(visits: Visits) -> None:
    since = token(visits)
    assert told(visits, since) == []
    visits.micro_batch(Visit(0, "a", 50), Visit(9, "b", 7))
    assert told(visits, since) == [
        (hour(0), "a", "false", "update", "visits", "1", "2", "late"),
        (hour(0), "a", "false", "update", "worst", "5", "50", "late"),
        (hour(9), "b", "false", "insert", "visits", None, "1", "new"),
        (hour(9), "b", "false", "insert", "worst", None, "7", "new"),
    ]
    visits.publish(0)
    assert told(visits, since)[:1] == [(hour(0), "a", "false", "update", "visits", "1", "2", "late")]
    published = token(visits)
    visits.publish(0)
    assert told(visits, published) == [], "the same numbers again are no change"


def test_a_duplicate_that_provisional_had_counted_is_told_when_it_is_left_out(visits: Visits) -> None:
    visits.micro_batch(Visit(1, "a", 50, visit="x"))
    visits.micro_batch(Visit(1, None, 700, visit="x", missed=True))
    since = token(visits)
    visits.publish(1)
    assert told(visits, since) == [
        (hour(1), None, "true", "delete", "visits", "1", None, "duplicate"),
        (hour(1), None, "true", "delete", "worst", "700", None, "duplicate"),
    ]


def test_what_a_person_accepts_is_told(visits: Visits) -> None:
    visits.micro_batch(Visit(1, "a", 50, visit="x"))
    visits.micro_batch(Visit(1, "a", 70, visit="x", missed=True))
    visits.publish(1, blocked=[1])
    since = token(visits)
    visits.publish(1, person="ann: it is so")
    assert told(visits, since) == [
        (hour(1), "a", "false", "update", "visits", "2", "1", "accepted", "duplicate"),
        (hour(1), "a", "false", "update", "worst", "70", "50", "accepted", "duplicate"),
    ]


def test_an_hour_whose_earlier_rows_are_no_longer_kept_is_given_anew(visits: Visits) -> None:
    since = token(visits)
    visits.micro_batch(Visit(0, "a", 50))
    visits.publish(0)
    maintain_source(visits.project, visits.source_tables, kept_hours=0)
    assert told(visits, since) == [
        (hour(0), "replace", None, None, None, "late"),
        (hour(0), "a", "false", "insert", "visits", None, "2", "late"),
        (hour(0), "a", "false", "insert", "worst", None, "50", "late"),
        (hour(0), "b", "true", "insert", "visits", None, "1", "late"),
        (hour(0), "b", "true", "insert", "worst", None, "900", "late"),
    ]


def test_what_cannot_be_compared_is_refused_in_one_sentence(visits: Visits) -> None:
    since = token(visits)
    visits.micro_batch(Visit(1, "a", 5))
    with pytest.raises(
        UsageError, match=r"^got changes since p0-visits.2 up to p0-visits.1, which is earlier; exchange"
    ):
        changes(visits.project, token(visits), since)
    with pytest.raises(UsageError, match="there is no source 'clicks'"):
        changes(visits.project, "p0-clicks.1")
    with pytest.raises(UsageError, match="source 'visits' has no micro-batch 99"):
        changes(visits.project, "p0-visits.99")
    with (
        serving_layer.connect(visits.project) as connection,
        pytest.raises(UsageError, match="the view 'changes' needs an earlier token or time to compare with: use"),
    ):
        connection.sql("FROM changes")
    visits.project = replace(visits.project, settings=Settings(batch=BatchSettings(answers_kept=timedelta(0))))
    for _ in range(3):
        visits.publish(0)
    published = token(visits)
    visits.publish(0, 1)
    list(Maintenance(visits.project, kept_hours=0).run())
    with pytest.raises(UsageError, match=r"no longer kept; results can be repeated for 0:00:00 \(batch.answers_kept"):
        changes(visits.project, published)


def test_an_hour_that_is_published_again_with_other_values_is_told(visits: Visits) -> None:
    visits.micro_batch(Visit(1, "a", 50, visit="x"))
    visits.publish(1)
    since = token(visits)
    # As after decoding anew: neither the events nor the cutoff change.
    visits.visits = [replace(visit, ms=60) if visit.hour == 1 else visit for visit in visits.visits]
    visits.publish(1)
    assert told(visits, since) == [(hour(1), "a", "false", "update", "worst", "50", "60", "unexplained")]
