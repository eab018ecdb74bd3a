"""What is expected of windows and sessions is evaluated by each recompute that completes one, on what readers would get,
and fails the recomputed hours that it touches.
"""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.audit.findings import Finding
from batch_layer.audit.validator import Validator
from batch_layer.audit.window_results import validate_windows
from batch_layer.plan import plan
from hourline_core.model import Expectation, Measure, Metric, Project, expectations_hash
from hourline_core.model.hours import hour_text, time_text
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.database import open_database
from tests.protocol.test_session_windows import DECLARED as SESSIONS
from tests.protocol.test_session_windows import FIRST, MINUTE, Sessions, split
from tests.protocol.test_session_windows import HOURS as HOURS_OF_SESSIONS
from tests.protocol.test_session_windows import STEPS as STEPS_OF_SESSIONS
from tests.protocol.test_session_windows import after as after_steps
from tests.support.examples import examples
from tests.support.visits import Visit, Visits, first_of_each, hour, tiles
from tests.support.window_oracle import DECLARED, HOUR, WITH_PANES, Declared, windows_of

VALIDATOR = Validator()
HOURS = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.lists(
            st.builds(
                Visit, hour=HOURS, page=st.sampled_from("ab"), ms=st.sampled_from([5, 900]), minute=st.integers(0, 59)
            ),
            min_size=1,
            max_size=8,
        ),
        st.sets(HOURS, min_size=8),
    ),
    min_size=1,
    max_size=6,
)
MOST = 3
"""The number of visits that a window, and a row of it, may have."""
SUM = Expectation(
    type="expect_column_sum_to_be_between", parameters={"column": "visits", "max_value": MOST}, about="window"
)
ROWS = Expectation(
    type="expect_column_values_to_be_between", parameters={"column": "visits", "max_value": MOST}, about="window"
)
EACH = Expectation(
    type="expect_column_values_to_be_between", parameters={"column": "visits", "max_value": 1}, about="window"
)
OF_EACH_KIND = {
    "{size: 5h, every: 3h}",
    "{size: 1 day, zone: America/New_York}",
    "7m",
}
WITHOUT_MONTHS = [
    # test_windowed_answers.py proves what each window contains.
    one if one.yaml in OF_EACH_KIND else pytest.param(one, marks=pytest.mark.long)
    for one in [*DECLARED, *WITH_PANES]
    if one.unit != "month"
]


def expecting(project: Project, *expectations: Expectation) -> Project:
    loads = project.metrics["loads"].model_copy(update={"expectations": list(expectations)})
    return replace(project, metrics={"loads": loads})


def audited(visits: Visits, metric: Metric, recomputed: Collection[int], *, tried: bool = False) -> list[Finding]:
    """What the audit of a recompute of these hours finds, or a trial on what is published of them."""
    counted = first_of_each(visits.visits)
    staged = None if tried else tiles((visit for visit in counted if visit.hour in recomputed), visits.metric)
    with open_database(visits.project) as (connection, snapshot):
        hours = [hour(number) for number in sorted(recomputed)]
        return validate_windows(VALIDATOR, connection, snapshot.metrics[0], metric, hours, staged).findings


def complete(visits: Visits, declared: Declared, known: Collection[datetime], recomputed: Collection[int]) -> Any:
    """By complete window, the visits in it that readers would get."""
    published = {hour(number) for number in (*visits.cutoffs, *recomputed)}
    for start, end in windows_of(declared, [hour(number) for number in recomputed]).items():
        of_window = {one for one in known if start < one + HOUR and one < end}
        first = start.replace(minute=0)
        is_known = end <= visits.clock or len(of_window) == -(-(end - first) // HOUR)
        if is_known and of_window <= published:
            counted = [v for v in first_of_each(visits.visits) if v.hour in recomputed]
            counted += [v for number in visits.cutoffs if number not in recomputed for v in visits.final(number)]
            yield (start, end), [v for v in counted if start <= v.time < end]


def known_hours(visits: Visits) -> list[datetime]:
    with open_database(visits.project) as (connection, snapshot):
        table = f"hourline.hours_{snapshot.metrics[0].name}"
        return [one for (one,) in connection.execute(f"SELECT hour FROM {table}").fetchall()]


@pytest.mark.parametrize("declared", WITHOUT_MONTHS, ids=lambda declared: declared.yaml)
@settings(max_examples=examples(3))
@given(steps=STEPS, recomputed=st.sets(HOURS, min_size=1))
def test_a_complete_window_fails_the_recomputed_hours_that_it_touches(
    declared: Declared, steps: list[Any], recomputed: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder), declared.yaml)
        visits.start()
        visits.micro_batch(Visit(0, "a", 5), Visit(30, "a", 5))
        for step in steps:
            if isinstance(step, list):
                visits.micro_batch(*step)
            else:
                visits.publish(*sorted(step))
        metric = expecting(visits.project, SUM, ROWS).metrics["loads"]
        known = known_hours(visits)
        recomputed = {number for number in recomputed if hour(number) in known}
        wanted = set()
        for (start, end), counted in complete(visits, declared, known, recomputed):
            groups = {(v.page, v.slow) for v in counted}
            largest = max((sum((v.page, v.slow) == group for v in counted) for group in groups), default=0)
            touched = {hour_text(hour(n)) for n in recomputed if start < hour(n + 1) and hour(n) < end}
            if counted:
                wanted |= {(one, SUM.type, len(counted) <= MOST) for one in touched}
                wanted |= {(one, ROWS.type, largest <= MOST) for one in touched}
        wanted -= {(one, kind, True) for one, kind, success in wanted if not success}
        found = audited(visits, metric, recomputed) if recomputed else []
        assert {(one.hour, one.check.type, one.success) for one in found} == wanted
        assert len(found) == len(wanted)


def complete_sessions(
    visits: Visits, declared: Sessions, known: Collection[datetime], recomputed: Collection[int], *, tried: bool
) -> Any:
    """By complete session, the recomputed hours in which an event could join it, and the number of its visits."""
    published = {hour(number) for number in (*visits.cutoffs, *(() if tried else recomputed))}
    fresh = set() if tried else set(recomputed)
    counted = [v for v in first_of_each(visits.visits) if v.hour in fresh]
    counted += [v for number in visits.cutoffs if number not in fresh for v in visits.final(number)]
    for group in {(v.page, v.slow) for v in counted}:
        times = sorted(v.time for v in counted if (v.page, v.slow) == group)
        for start, end in split(times, declared):
            joinable = {one for one in known if one + HOUR > start - declared.gap and one <= end}
            has_closed = end.replace(minute=0) + HOUR + visits.source.grace <= visits.clock
            touched = joinable & {hour(number) for number in recomputed}
            if has_closed and joinable <= published and touched:
                within = [t for t in times if start <= t and (t < end or t == end - declared.gap)]
                yield (start, end, *group), touched, len(within)


@pytest.mark.parametrize(
    "declared",
    [pytest.param(one, marks=() if one in (SESSIONS[2], SESSIONS[3]) else pytest.mark.long) for one in SESSIONS],
    ids=lambda declared: declared.yaml,
)
@settings(max_examples=examples(4))
@given(
    steps=STEPS_OF_SESSIONS,
    later=st.integers(9, 16),
    recomputed=st.sets(HOURS_OF_SESSIONS, min_size=1),
    tried=st.booleans(),
)
def test_a_complete_session_fails_the_recomputed_hours_in_which_an_event_could_join_it(
    declared: Sessions, steps: list[Any], later: int, recomputed: set[int], tried: bool
) -> None:
    with TemporaryDirectory() as folder:
        visits = after_steps(Path(folder), [*steps, [Visit(FIRST + later, "a", 5)]], declared)
        metric = expecting(visits.project, EACH).metrics["loads"]
        known = known_hours(visits)
        recomputed &= set(visits.cutoffs) if tried else {FIRST + number for number in range(later + 1)}
        recomputed = {number for number in recomputed if hour(number) in known}
        of_hours: dict[str, set[Any]] = {}
        for session, touched, count in complete_sessions(visits, declared, known, recomputed, tried=tried):
            for one in touched:
                of_hours.setdefault(hour_text(one), set()).add((*session, count))
        found = audited(visits, metric, recomputed, tried=tried) if recomputed else []
        failing = {one: {s for s in sessions if s[-1] > 1} for one, sessions in of_hours.items()}
        assert {one.hour: one.unexpected for one in found} == {one: len(some) for one, some in failing.items()}
        assert len(found) == len(of_hours)
        for one in found:
            rows = [json.loads(row) for row in one.rows]
            told = {(*(datetime.fromisoformat(row[name]) for name in WINDOW_COLUMNS), row["visits"]) for row in rows}
            assert told == {(start, end, count) for start, end, *_, count in failing[one.hour]}


@pytest.fixture
def of_a(tmp_path: Path) -> Visits:
    """Sessions with a gap of 30 minutes: of page a from 00:50 to 01:40, and from 02:50 to 03:40. The clock is at
    09:00.
    """
    visits = Visits(tmp_path, "{gap: 30m}")
    visits.start()
    visits.micro_batch(*(Visit(minute // 60, "a", 5, minute=minute % 60) for minute in (50, 70, 170, 190)))
    visits.micro_batch(Visit(9, "a", 5))
    return visits


def test_a_session_is_judged_by_the_recompute_that_completes_it_and_by_each_that_may_change_it(of_a: Visits) -> None:
    metric = expecting(of_a.project, EACH).metrics["loads"]
    assert audited(of_a, metric, {0}) == [], "an event of the next hour could join it"
    of_a.publish(0)
    said = "session 2024-03-01T00:50Z to 2024-03-01T01:40Z, page a, slow false: visits: 2"
    assert [(one.hour, one.found, one.unexpected, one.blocks) for one in audited(of_a, metric, {1})] == [
        ("2024-03-01T01:00Z", said, 1, True)
    ]
    of_a.publish(1)
    assert audited(of_a, metric, {2}) == [], "it has not been touched, and the next one is not complete"
    both = audited(of_a, metric, {2, 3})
    assert [(one.hour, one.success) for one in both] == [("2024-03-01T02:00Z", False), ("2024-03-01T03:00Z", False)]
    of_a.publish(2, 3)
    assert [one.hour for one in audited(of_a, metric, {2})] == ["2024-03-01T02:00Z"], "it is judged again"
    # A late visit makes one session of both. It is judged as it will be read once this hour is published.
    of_a.micro_batch(Visit(1, "a", 5, minute=35), Visit(2, "a", 5, minute=0), Visit(2, "a", 5, minute=25))
    assert [one.found for one in audited(of_a, metric, {1, 2})] == [
        "session 2024-03-01T00:50Z to 2024-03-01T03:40Z, page a, slow false: visits: 7"
    ] * 2


def test_a_long_session_is_judged_as_a_whole_and_a_longer_one_as_it_is_cut(tmp_path: Path) -> None:
    declared = Sessions(gap=50 * MINUTE, longest=5 * HOUR)
    visits = Visits(tmp_path, declared.yaml)
    visits.start()
    minutes = [*range(10, 260, 45), *range(600, 1250, 45)]
    visits.micro_batch(*(Visit(minute // 60, "a", 5, minute=minute % 60) for minute in minutes), Visit(25, "b", 5))
    visits.publish(*set(range(25)) - {4, 21})
    times = sorted(visit.time for visit in visits.visits if visit.page == "a")
    metric, (long, *pieces) = expecting(visits.project, EACH).metrics["loads"], split(times, declared)
    assert len(pieces) > 1, "the second chain is cut"
    for number, (start, end) in ((4, long), (21, pieces[-1])):
        count = sum(start <= time < end for time in times)
        assert [one.found for one in audited(visits, metric, {number})] == [
            f"session {time_text(start)} to {time_text(end)}, page a, slow false: visits: {count}"
        ]


@pytest.mark.parametrize("window", ["{gap: 30m}", "4h"])
def test_a_blocked_hour_is_tried_again_with_a_changed_hour_of_the_same_window(window: str, tmp_path: Path) -> None:
    visits = Visits(tmp_path, window)
    visits.start()
    visits.micro_batch(*(Visit(number, "a", 5) for number in (0, 1, 2, 3, 9)))
    project = expecting(visits.project, EACH)
    visits.expectations = expectations_hash(visits.source, project.metrics["loads"])
    visits.publish(*range(10), blocked={3})

    def reasons() -> dict[datetime, str]:
        return {one.hour: one.reason for one in plan(project)}

    assert reasons() == {}
    visits.micro_batch(Visit(1, "b", 5))
    assert reasons() == {hour(1): "revised", hour(3): "blocked"}


@pytest.mark.parametrize(("window", "seconds"), [("{gap: 2h}", 5 * 3600), ("4h", 4 * 3600)])
def test_a_rate_is_by_the_length_of_the_window(window: str, seconds: int, tmp_path: Path) -> None:
    visits = Visits(tmp_path, window)
    visits.start()
    visits.micro_batch(*(Visit(number, "a", 5) for number in (0, 1, 2, 3)), Visit(20, "b", 5))
    rate = Measure(kind="rate", argument="visits")
    metric = visits.metric.model_copy(update={"measures": {**visits.metric.measures, "rate": rate}})
    expected = {"column": "rate", "min_value": 4 / seconds, "max_value": 4 / seconds}
    metric = metric.model_copy(update={"expectations": [EACH.model_copy(update={"parameters": expected})]})
    assert {(one.hour, one.success) for one in audited(visits, metric, range(6))} == {
        (hour_text(hour(number)), True) for number in range(6 if metric.session else 4)
    }
