"""The class of a user-defined measure: what is found before anything runs, and what is told when it fails."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.aggregates.user_classes import trial_calls
from hourline_core.aggregates.user_classes.code import UnusableClassError, refuse_arguments
from hourline_core.aggregates.user_classes.measure_class import NO_STATE, load_class
from hourline_core.aggregates.user_classes.measure_trial import find_unmergeable, measure_seconds
from hourline_core.model import UserMeasure
from tests.support.user_classes import CLASSES

ROOT = Path(__file__).parents[3]
DOUBLES = [pa.float64(), pa.float64()]
NESTED = [pa.list_(pa.struct({"day": pa.date32(), "flag": pa.bool_(), "amount": pa.decimal128(9, 2)}))]


def changed(name: str, before: str, after: str) -> UserMeasure:
    """A measure with another text in one place."""
    assert CLASSES[name].count(before) == 1
    return UserMeasure(name=name, code=CLASSES[name].replace(before, after))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("spread", [pa.int32()]),
        ("spread", [pa.float64()]),
        ("weighted_mean", DOUBLES),
        ("known_words", [pa.string()]),
        ("word_counts", [pa.string()]),
    ],
)
def test_a_class_that_merges_has_no_mistake(name: str, arguments: list[pa.DataType]) -> None:
    assert find_unmergeable(load_class(UserMeasure(name=name, code=CLASSES[name])), arguments) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("import pyarrow as pa", "import pyarrow as pa\nimport geo", ":2: ModuleNotFoundError: No module named 'geo'"),
        ("def start(self)", "def begin(self)", ":4: WeightedMean has no method start(self)"),
        ("value_type = pa.float64()", "value_type = pa.float16()", ":4: got value_type = halffloat, allowed is"),
        ("value_type = pa.float64()", "", ":4: got value_type = nothing, allowed is"),
        ('"weight": pa.float64()})', '"weight": float})', ":7: TypeError: DataType expected, got <class 'type'>"),
        (
            '"weight": pa.float64()})',
            '"weight": pa.duration("s")})',
            ":4: got state_type = struct<total: double, weight",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_told_with_its_line(before: str, after: str, said: str) -> None:
    with pytest.raises(UnusableClassError) as caught:
        load_class(changed("weighted_mean", before, after))
    assert str(caught.value).startswith(f"measures/weighted_mean.py{said}")


def test_arguments_that_add_does_not_take_are_told() -> None:
    with pytest.raises(UnusableClassError) as caught:
        loaded = load_class(UserMeasure(name="weighted_mean", code=CLASSES["weighted_mean"]))
        refuse_arguments(loaded.measure, loaded.add, ["state"], ["delay"])
    assert str(caught.value) == "measures/weighted_mean.py:13: got the arguments delay, add takes x, weight"


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        (
            "weighted_mean",
            "one[name] + other[name]",
            "one[name] - other[name]",
            ":16: merge(merge(a, b), c) and merge(a, merge(b, c)) differ: with the states a of [",
        ),
        (
            "known_words",
            "return sorted({*one, *other})",
            "return one + other",
            ":16: merge(a, b) and merge(b, a) differ: with the states a of [''], b of ['ab'], they give ',ab' and 'ab,'; "
            "parts of the events are merged in any order, so both have to be equal",
        ),
        (
            "known_words",
            "return sorted({*state, word})",
            "return sorted([*state, word])",
            ":13: merge(a, b) and add for all their events differ: with the states a of [",
        ),
        ("weighted_mean", "+ x * weight", "+ 1 / weight", ":14: add({'total': 0.0, 'weight': 0.0}, "),
        (
            "spread",
            "return self.merge(state,",
            "self.merge(state,",
            ":16: add gave None, allowed is a value of the type",
        ),
        (
            "weighted_mean",
            "for name in one}",
            "for name in one} and 5",
            ":16: merge gave 5, allowed is a value of the type",
        ),
    ],
)
def test_a_class_that_does_not_merge_is_told_with_a_small_example(
    name: str, before: str, after: str, said: str
) -> None:
    arguments = {"known_words": [pa.string()], "spread": [pa.int32()]}.get(name, DOUBLES)
    mistake = find_unmergeable(load_class(changed(name, before, after)), arguments)
    assert mistake is not None and mistake.startswith(f"measures/{name}.py{said}"), mistake


def test_the_class_in_the_guide_merges() -> None:
    guide = (ROOT / "docs/guides/declare-a-source-and-metrics.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n# measures/weighted_mean.py\n(.*?)```", guide, re.DOTALL)
    assert find_unmergeable(load_class(UserMeasure(name="weighted_mean", code=text)), DOUBLES) is None


def test_examples_of_the_class_replace_generated_events() -> None:
    only_weights = changed("weighted_mean", "+ x * weight", "+ 1 / weight")
    with_examples = f"{only_weights.code}\n    examples = [(1.0, 2.0), (3.0, 0.5)]\n"
    assert find_unmergeable(load_class(UserMeasure(name="weighted_mean", code=with_examples)), DOUBLES) is None


def test_nested_arguments_are_generated() -> None:
    count = changed("spread", "def add(self, state, x):", "def add(self, state, x):\n        x = len(x)")
    assert find_unmergeable(load_class(count), NESTED) is None


@pytest.mark.parametrize(
    ("method", "begins", "line"),
    [
        ("start", "def start(self):", 11),
        ("add", "def add(self, state, x, weight):", 14),
        ("merge", "def merge(self, one, other):", 17),
        ("finish", "def finish(self, state):", 20),
    ],
)
def test_a_loop_without_an_end_is_told_with_its_line_in_any_thread(
    method: str, begins: str, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_calls, "SECONDS", 0.3)
    endless = load_class(changed("weighted_mean", begins, f"{begins}\n        while True: len(str(self))"))
    with ThreadPoolExecutor() as threads:
        mistakes = {find_unmergeable(endless, DOUBLES), threads.submit(find_unmergeable, endless, DOUBLES).result()}
    assert mistakes == {
        f"measures/weighted_mean.py:{line}: {method} of WeightedMean did not end within 0.3 s of CPU time, which is the "
        "limit for one call; end its loop"
    }


def test_a_trial_leaves_the_trace_function_of_a_debugger() -> None:
    def debug(frame: FrameType, event: str, argument: Any) -> None:
        """It looks at nothing."""

    before = sys.gettrace()
    sys.settrace(debug)
    try:
        find_unmergeable(load_class(changed("weighted_mean", "+ x * weight", "+ 1 / weight")), DOUBLES)
        assert sys.gettrace() is debug
    finally:
        sys.settrace(before)


def test_a_slow_class_is_timed() -> None:
    slow = changed(
        "spread", "def add(self, state, x):", "def add(self, state, x):\n        import time; time.sleep(0.002)"
    )
    assert measure_seconds(load_class(slow), [pa.int32()]) >= 0.002


EVENT = pa.struct(
    {"_0": pa.float64(), "_1": pa.float64(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
)
NO_WEIGHT = ("+ x * weight", "+ x / weight")


def weighted(*weights: float) -> list[dict[str, Any]]:
    return [{"_0": 1.0, "_1": weight, "topic": "t", "partition": 3, "offset": 70} for weight in weights]


def test_only_the_group_that_the_class_fails_for_has_no_state() -> None:
    failing = load_class(changed("weighted_mean", *NO_WEIGHT))
    folded = failing.fold(pa.array([None, weighted(2.0), weighted(2.0, 0.0, 1.0), weighted(4.0)], pa.list_(EVENT)))
    assert folded.to_pylist() == [None, {"total": 0.5, "weight": 2.0}, None, {"total": 0.25, "weight": 4.0}]
    merging = load_class(changed("weighted_mean", "return {name: one", "{name: one"))
    state = {"total": 0.0, "weight": 1.0}
    merged = merging.merge_all(pa.array([[state], [state] * 2, None, []], pa.list_(failing.state_type)))
    assert merged.to_pylist() == [state, None, None, None]
    finishing = load_class(changed("weighted_mean", "if state", "or 'none' if state"))
    states = pa.array([state, {"total": 3.0, "weight": 1.0}, None], failing.state_type)
    assert finishing.finish_all(states).to_pylist() == [None, 3.0, None]
    of_finish, of_none, of_state = finishing.find_failures(states, pa.array([1, 1, 2])).to_pylist()
    assert "Could not convert 'none'" in of_finish
    assert (of_none, of_state) == (None, NO_STATE)


def test_an_event_is_blamed_with_the_line_whatever_the_events_around_it() -> None:
    failing = load_class(changed("weighted_mean", *NO_WEIGHT))
    blamed = failing.blame_events([pa.array([1.0, 1.0, None, 1.0]), pa.array([0.0, 2.0, None, 0.0])])
    said = "ZeroDivisionError: float division by zero, measures/weighted_mean.py:14"
    assert blamed == [said, None, None, said]


def test_no_event_is_blamed_for_a_start_that_fails() -> None:
    failing = load_class(changed("weighted_mean", 'return {"total": 0.0', 'return 1 / 0 or {"total": 0.0'))
    assert failing.blame_events([pa.array([1.0]), pa.array([1.0])]) == [None]
    assert failing.fold(pa.array([weighted(1.0)], pa.list_(EVENT))).to_pylist() == [None]


def test_a_state_that_was_lost_is_not_merged_away() -> None:
    loaded = load_class(UserMeasure(name="weighted_mean", code=CLASSES["weighted_mean"]))
    state = {"total": 1.0, "weight": 1.0}
    assert loaded.merge_all(pa.array([[state, None]], pa.list_(loaded.state_type))).to_pylist() == [None]


def test_events_that_add_takes_only_alone_are_merged() -> None:
    """``add`` fails at a state with events, and for no event alone. Then the size of a micro-batch would matter."""
    picky = changed("weighted_mean", "+ x * weight", "+ x * weight / (state['weight'] == 0)")
    folded = load_class(picky).fold(pa.array([weighted(2.0, 3.0)], pa.list_(EVENT)))
    assert folded.to_pylist() == [{"total": 5.0, "weight": 5.0}]


def test_memory_that_is_short_is_no_fault_of_an_event() -> None:
    begins = "def add(self, state, x, weight):"
    short = load_class(changed("weighted_mean", begins, f"{begins}\n        raise MemoryError"))
    with pytest.raises(MemoryError):
        short.blame_events([pa.array([1.0]), pa.array([1.0])])
