"""Problems as a person counts them: publication by publication, each expectation has a list of the hours that fail."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.ledger.problems import declared_expectation, tell_found
from hourline_core.model import Expectation, Project, Settings
from tests.support.bare_tables import METRICS as METRICS_WITH_TABLES
from tests.support.bare_tables import SOURCE
from tests.support.examples import examples
from tests.support.quality_rows import HOUR, START, problems_of, row

METRICS = ("views", "visitors")
OF_METRIC, OF_SOURCE = "expect_a", "expect_b"

_PUBLICATION = st.dictionaries(
    st.tuples(st.sampled_from(METRICS), st.integers(0, 2)),
    st.sampled_from(["pass", "fail", "warn", "accept"]),
    min_size=1,
    max_size=4,
)


def _rows(publication: int, metric: str, hour: int, outcome: str) -> list[dict[str, Any]]:
    common = {"publication": publication, "audited": START + publication * HOUR}
    if outcome == "accept":
        return [row(hour, metric, "accepted", origin="person", severity="warn", about="", **common)]
    return [
        row(hour, metric, OF_METRIC, success=outcome != "fail", **common),
        row(hour, metric, OF_METRIC, success=outcome != "warn", severity="warn", **common),
    ]


@settings(max_examples=examples(100))
@given(st.lists(_PUBLICATION, max_size=12))
def test_a_problem_is_open_from_its_first_failure_until_its_last_hour_is_mended_or_accepted(
    publications: list[dict[tuple[str, int], str]],
) -> None:
    rows: list[dict[str, Any]] = []
    failing: dict[tuple[str, str], set[int]] = {}
    opened: dict[tuple[str, str], int] = {}
    closed = []
    for number, outcomes in enumerate(publications, start=1):
        for (metric, hour), outcome in outcomes.items():
            rows += _rows(number, metric, hour, outcome)
            for severity in ("fail", "warn"):
                hours = failing.setdefault((metric, severity), set())
                hours -= {hour}
                hours |= {hour} if outcome == severity else set()
        for key, hours in failing.items():
            if hours and key not in opened:
                opened[key] = number if key[1] == "fail" else 0
            elif not hours and key in opened:
                closed.append((key, opened.pop(key)))
    blocked = {(metric, hour) for (metric, severity), hours in failing.items() if severity == "fail" for hour in hours}
    found = problems_of(rows, blocked)
    assert {
        (problem.of.metric, problem.of.severity): {(one.hour - START) // HOUR for one in problem.hours}
        for problem in found.open
    } == {key: hours for key, hours in failing.items() if hours}
    for problem in found.open:
        assert problem.id == problem.of.id_of(opened[problem.of.metric or "", problem.of.severity])
    assert len(found.closed) == len(set(closed) - {(key, 0) for key in failing if failing[key]})
    assert not found.closed & {problem.id for problem in found.open}


def test_an_expectation_on_events_is_one_problem_of_all_metrics() -> None:
    rows = [row(hour, metric, OF_METRIC) for hour in range(4) for metric in METRICS]
    rows += [row(hour, None, OF_SOURCE, success=hour == 0, unexpected=3) for hour in range(4)]
    blocked = [(metric, hour) for hour in (1, 2, 3) for metric in METRICS]
    (problem,) = problems_of(rows, blocked).open
    assert (problem.of.metric, problem.metrics, len(problem.hours), len(problem.by_hour)) == (None, [*METRICS], 6, 3)
    assert problem.failing_rows == 9
    # One of them was accepted for one metric.
    (problem,) = problems_of(rows, blocked[1:]).open
    assert len(problem.hours) == 5


def test_bounds_of_a_job_do_not_part_a_problem_and_bounds_of_a_user_do() -> None:
    rows = [row(hour, parameters=f'{{"value_set": [{hour}]}}', success=False, origin="declaration") for hour in (0, 1)]
    rows += [row(hour, parameters=f'{{"max_value": {hour}}}', success=False) for hour in (0, 1)]
    found = problems_of(rows, [("views", 0), ("views", 1)]).open
    assert sorted((problem.of.origin, len(problem.hours)) for problem in found) == [
        ("declaration", 2),
        ("user", 1),
        ("user", 1),
    ]


def test_expectations_that_differ_in_their_condition_are_two_problems() -> None:
    bounds = '{"column": "visits", "max_value": 1}'
    conditions = (None, "rows >= 20", "rows < 20")
    rows = [row(hour, parameters=bounds, success=False, condition=when) for hour in (0, 1) for when in conditions]
    found = problems_of(rows, [("views", 0), ("views", 1)]).open
    assert {(problem.of.condition, len(problem.hours)) for problem in found} == {
        ("", 2),
        ("rows >= 20", 2),
        ("rows < 20", 2),
    }
    assert len({problem.id for problem in found}) == 3
    assert found == problems_of(list(reversed(rows)), [("views", 0), ("views", 1)]).open


def test_what_is_expected_of_hours_and_of_windows_are_two_problems() -> None:
    bounds = '{"column": "visits", "max_value": 1}'
    rows = [
        row(hour, parameters=bounds, success=False, unit=unit) for hour in (0, 1) for unit in ("hour", "window", None)
    ]
    found = problems_of(rows, [("views", 0), ("views", 1)]).open
    # Before there were expectations about windows, the unit was not kept.
    assert {(problem.of.unit, len(problem.by_hour)) for problem in found} == {("hour", 2), ("window", 2)}
    assert len({problem.id for problem in found}) == 2


def test_the_usual_values_are_those_of_hours_that_passed() -> None:
    rows = [row(hour, observed=100.0 + hour, success=hour < 21) for hour in range(24)]
    (problem,) = problems_of(rows, [("views", hour) for hour in (21, 22, 23)]).open
    assert problem.usual is not None
    assert (problem.usual.low, problem.usual.median, problem.usual.high) == (101.0, 110.0, 119.0)
    assert problem.opened == START + 23 * HOUR


def test_hours_that_two_problems_block_are_told() -> None:
    rows = [row(hour, about=about, success=False) for hour in range(3) for about in "ab" if (hour, about) != (0, "b")]
    found = {problem.of.about: problem for problem in problems_of(rows, [("views", hour) for hour in range(3)]).open}
    assert found["a"].beside == {found["b"].id: 2}
    assert found["a"].accept == f'hourline accept {found["a"].id}@3 --reason "…"'
    assert found["a"].waits_for == ""
    # All hours of b are blocked by a, too: accepting both publishes an hour that is not one of b's.
    assert found["b"].accept is None
    assert found["b"].waits_for == (
        f"{found['a'].id} blocks all of these hours, too; accepting both publishes 3 hours: "
        f'`hourline accept {found["b"].id}@3 {found["a"].id}@3 --reason "…"`'
    )


@settings(max_examples=examples(100))
@given(st.dictionaries(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), st.just(None), min_size=1))
def test_a_problem_is_accepted_alone_only_if_that_publishes_something(failing: dict[tuple[str, int], None]) -> None:
    rows = [row(hour, about=about, success=False) for about, hour in failing]
    found = problems_of(rows, {("views", hour) for _, hour in failing}).open
    blocks = {problem.of.about: {hour for about, hour in failing if about == problem.of.about} for problem in found}
    ids = {problem.id: problem.of.about for problem in found}

    def published(accepted: set[str]) -> set[int]:
        return {hour for _, hour in failing if {about for about, hours in blocks.items() if hour in hours} <= accepted}

    for problem in found:
        own = problem.of.about
        assert (problem.accept is not None) == bool(published({own}))
        assert (problem.accept is None) == bool(problem.waits_for)
        if "publishes" in problem.waits_for:
            named = {ids[id] for id in re.findall(r"(\w+)@", problem.waits_for)}
            assert published(named) & blocks[own]
            assert f"publishes {len(published(named))} hour" in problem.waits_for


def test_what_is_accepted_names_the_newest_audit_that_was_shown() -> None:
    rows = [row(hour, success=False, publication=number) for hour, number in ((0, 7), (1, 5))]
    found = problems_of(rows, [("views", 0), ("views", 1)])
    (problem,) = found.open
    assert problem.accept == f'hourline accept {problem.id}@7 --reason "…"'
    assert found.find_shown(f"{problem.id}@5") == (problem, 5)
    with pytest.raises(UsageError, match=f"look at its 2 hours .*, then `hourline accept {problem.id}@7 "):
        found.find_shown(problem.id)


def test_a_warning_in_a_blocked_hour_is_not_told_as_published() -> None:
    rows = [
        row(hour, about=about, success=False, severity=severity)
        for about, severity in (("a", "fail"), ("b", "warn"))
        for hour in (0, 1)
    ]
    warned = next(problem for problem in problems_of(rows, [("views", 0)]).open if not problem.blocks)
    assert [one.readers for one in warned.hours] == ["provisional result", "this result"]


def test_an_id_that_is_closed_or_unknown_is_told_with_the_command_that_lists_the_open_ones() -> None:
    failed = row(0, success=False)
    (problem,) = problems_of([failed], [("views", 0)]).open
    mended = problems_of([failed, row(0, publication=9)])
    with pytest.raises(
        UsageError,
        match=f"problem '{problem.id}' is closed: .* or its metric was declared again; `hourline quality` lists the open ones",
    ):
        mended.find(problem.id)
    with pytest.raises(UsageError, match=r"this project has no problem 'beef'.*; `hourline quality` lists the open"):
        mended.find("beef")


def test_a_problem_that_only_warned_cannot_be_accepted() -> None:
    (problem,) = problems_of([row(0, severity="warn", success=False)]).open
    with pytest.raises(UsageError, match=f"problem '{problem.id}' only warned"):
        problems_of([row(0, severity="warn", success=False)]).find_shown(problem.shown)


def test_a_warning_of_five_weeks_ago_is_no_problem_any_more() -> None:
    rows = [row(0, severity="warn", success=False), row(1, severity="warn", success=False), row(28 * 24)]
    (problem,) = problems_of(rows).open
    assert [one.hour for one in problem.hours] == [START + HOUR]


def test_a_problem_knows_its_declaration() -> None:
    bounds = {"column": "visits", "min_value": 1}
    declared = [
        Expectation(type="expect_x", parameters=bounds),
        Expectation(type="expect_x", parameters={**bounds, "min_value": 2}),
        Expectation(type="expect_y", parameters={"column_list": ["visits", "page"], "max_value": 1}),
        Expectation(type="expect_x", parameters=bounds, when="rows >= 20", owner="nights"),
        Expectation(type="expect_x", parameters=bounds, about="window"),
    ]
    metric = METRICS_WITH_TABLES["totals"].model_copy(update={"expectations": declared})
    project = Project(Path("shop"), Settings(), {"clicks": SOURCE}, {"totals": metric})

    def found(**fields: Any) -> Expectation | None:
        (problem,) = problems_of([row(0, "totals", success=False, **fields)], [("totals", 0)]).open
        return declared_expectation(project, problem.of)

    assert found(expectation="expect_x", parameters='{"column": "visits", "min_value": 2}') is metric.expectations[1]
    assert found(expectation="expect_x", parameters='{"column": "visits", "min_value": 3}') is None
    assert found(expectation="expect_x", origin="history") is None
    first = '{"column": "visits", "min_value": 1}'
    assert found(expectation="expect_x", parameters=first) is metric.expectations[0]
    assert found(expectation="expect_x", parameters=first, condition="rows >= 20") is metric.expectations[3]
    assert found(expectation="expect_x", parameters=first, unit="window") is metric.expectations[4]
    changed = '{"column_list": ["visits", "page"], "max_value": 2}'
    assert found(expectation="expect_y", about="visits, page", parameters=changed) is metric.expectations[2]
    # Of another column it says nothing, as of a bound of the volume.
    assert found(expectation="expect_y", about="events", parameters=changed) is None


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], ""),
        ([("", None)], ""),
        ([("2 of 9 rows", None), ("2 of 9 rows", None)], "2 of 9 rows"),
        ([("found 7", 7.0), ("found 8", 8.0)], "found 8"),
        ([("a", None), ("b", None), ("b", None)], "b (2 hours); a (1 hour)"),
        ([(words, None) for words in "abcde"], "a (1 hour); b (1 hour); c (1 hour); 2 more"),
    ],
)
def test_what_was_found_is_told_once_with_the_number_of_hours(found: list[tuple[str, float | None]], told: str) -> None:
    assert tell_found(found) == told
