"""The class of a keyed fold: what is found before anything runs, and what is told when it fails."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.aggregates.user_classes import trial_calls
from hourline_core.aggregates.user_classes.code import UnusableClassError
from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.fold_trial import find_broken_fold, measure_step_seconds
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.model import UserMeasure
from tests.support.user_classes import FOLDS, KEPT_EVENT

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def changed(name: str, before: str, after: str) -> UserMeasure:
    """A fold with another text in one place."""
    assert FOLDS[name].count(before) == 1
    return UserMeasure(kind="fold", name=name, code=FOLDS[name].replace(before, after))


def events(*values: int, minute: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "at": NOON + timedelta(minutes=minute + n),
            "partition": 1,
            "offset": 40 + n,
            "place": 0,
            "topic": "t",
            "_0": x,
        }
        for n, x in enumerate(values)
    ]


def finish(measure: UserMeasure, groups: list[list[dict[str, Any]] | None], counts: list[int | None]) -> list[Any]:
    values: list[Any] = (
        load_fold(measure).finish_all(pa.array(groups, pa.list_(KEPT_EVENT)), pa.array(counts)).to_pylist()
    )
    return values


def test_events_are_taken_in_their_order() -> None:
    trail = UserMeasure(kind="fold", name="trail", code=FOLDS["trail"])
    late_first = [*events(3, 4, minute=5), *events(1, 2)]
    assert finish(trail, [late_first, [], None, events(9)], [4, 0, None, 1]) == ["1,2,3,4", None, None, "9"]


def test_what_is_not_kept_matters_unless_the_fold_is_done() -> None:
    third = UserMeasure(kind="fold", name="until_third", code=FOLDS["until_third"])
    trail = UserMeasure(kind="fold", name="trail", code=FOLDS["trail"])
    assert finish(third, [events(1, 1, 1, 1), events(1, 1)], [9, 2]) == [120.0, None]
    assert finish(trail, [events(1, 1), events(1, 1)], [3, 2]) == [None, "1,1"]


@pytest.mark.parametrize("name", FOLDS)
def test_a_class_that_folds_has_no_mistake(name: str) -> None:
    assert find_broken_fold(load_fold(UserMeasure(kind="fold", name=name, code=FOLDS[name])), [pa.int32()]) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("most = 5", "", "4: got most = nothing, allowed is a whole number from 1 to 100,000"),
        ("most = 5", "most = 0", "4: got most = 0, allowed is a whole number from 1 to 100,000"),
        ("most = 5", "most = True", "4: got most = True, allowed is a whole number from 1 to 100,000"),
        ("def step(self", "def add(self", "4: Trail has no method step(self, state, at, x)"),
        ("most = 5", "most = 5\n    done = True", "4: Trail has no method done(self, state)"),
        ("most = 5", "most = 5\n    examples = 7", "4: got examples = 7, allowed is a list of tuples, each with"),
        (
            "pa.string()",
            "pa.list_(pa.string())",
            "4: got value_type = list<item: string>, allowed is a type of pyarrow",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_told_with_its_line(before: str, after: str, said: str) -> None:
    with pytest.raises(UnusableClassError) as caught:
        load_fold(changed("trail", before, after))
    assert str(caught.value).startswith(f"folds/trail.py:{said}")


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("trail", "return [*state, x]", "state.append(x)", "13: step: it gave None, allowed is a state: return it"),
        ("trail", "return []", "return self.kept\n\n    kept = []", "15: step: the same events [("),
        ("trail", '",".join(map(str, state))', "len(state)", "16: finish: it gave 1, allowed is a value of the type"),
        ("trail", "return [*state, x]", "return [*state, 1 / x]", "14: step("),
        ("trail", "return [*state, x]", "raise SystemExit(1)", "14: step("),
        ("until_third", "len(state) == 3\n\n    def finish", "state[3]\n\n    def finish", "17: done([datetime"),
    ],
)
def test_a_class_that_does_not_fold_is_told_with_an_example(name: str, before: str, after: str, said: str) -> None:
    measure = changed(name, before, after)
    if "kept" in after:
        measure = measure.model_copy(
            update={"code": measure.code.replace("return [*state, x]", "return state.append(x) or state")}
        )
    mistake = find_broken_fold(load_fold(measure), [pa.int32()])
    assert mistake is not None and mistake.startswith(f"folds/{name}.py:{said}"), mistake


def test_a_loop_without_an_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_calls, "SECONDS", 0.3)
    endless = changed("until_third", "len(state) == 3\n\n    def finish", "[1 for _ in iter(int, 1)]\n\n    def finish")
    mistake = find_broken_fold(load_fold(endless), [pa.int32()])
    assert mistake is not None and mistake.startswith("folds/until_third.py:17: done of UntilThird did not end within")


def test_no_state_may_be_the_state_of_no_event() -> None:
    first = changed("trail", "return []", "return None").code.replace("[*state, x]", "state or (x if x > 9 else None)")
    last = first.replace('",".join(map(str, state))', "str(state)")
    assert find_broken_fold(load_fold(UserMeasure(kind="fold", name="trail", code=last)), [pa.int32()]) is None


def test_the_arguments_of_a_call_are_shortened() -> None:
    long = changed("trail", "return []", "return 'x' * 100_000")
    mistake = find_broken_fold(load_fold(long.model_copy(update={"code": long.code.replace("*state", "6 // 0")})), [])
    assert mistake is not None and len(mistake) < 1000


def test_a_class_that_is_done_is_not_timed_beyond_it() -> None:
    loaded = load_fold(changed("until_third", "[*state, at]", "[*state, at][: 3 // (len(state) < 3)]"))
    assert find_broken_fold(loaded, [pa.int32()]) is None
    assert measure_step_seconds(loaded, [pa.int32()]) > 0


def test_a_fold_among_the_measures_is_told_where_it_belongs() -> None:
    with pytest.raises(UnusableClassError) as caught:
        load_class(UserMeasure(name="trail", code=FOLDS["trail"]))
    assert str(caught.value) == "measures/trail.py:4: a class with step is a keyed fold: move the file to folds"


def test_a_slow_class_is_timed() -> None:
    slow = changed("trail", "return [*state, x]", "import time; time.sleep(0.002); return [x]")
    assert measure_step_seconds(load_fold(slow), [pa.int32()]) >= 0.002


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("return [*state, x]", "return [*state, 6 // x]", "ZeroDivisionError: integer division or modulo by zero"),
        ("map(str, state)", "state and {}[0] if 0 in state else map(str, state)", "KeyError: 0"),
        ('",".join(map(str, state))', '7 if 0 in state else ",".join(map(str, state))', "ArrowTypeError"),
    ],
)
def test_only_the_group_that_a_fold_fails_for_has_no_value(before: str, after: str, said: str) -> None:
    failing = changed("trail", before, after)
    groups = [None, events(3, 0, 2), events(2, 2), []]
    of_groups = [None, 3, 2, 0]
    values = finish(failing, groups, of_groups)
    assert values[:2] == [None, None] and values[2] is not None and values[3] is None
    kept = pa.array(groups, pa.list_(KEPT_EVENT))
    of_none, told, of_good, of_empty = load_fold(failing).find_failures(kept, pa.array(of_groups)).to_pylist()
    assert (of_none, of_good, of_empty) == (None, None, None)
    assert told.startswith(said) and ", folds/trail.py:" in told
    assert load_fold(failing).count_beyond(kept, pa.array([None, 7, 2, 0])).to_pylist() == [None, 4, 0, 0]
