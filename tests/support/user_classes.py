"""User-defined measures for tests, as a project's files ``measures/NAME.py`` and ``folds/NAME.py``."""

import pyarrow as pa

from hourline_core.model import Measure, UserMeasure

KEPT_EVENT = pa.struct(
    {
        "at": pa.timestamp("us", "UTC"),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "place": pa.int32(),
        "topic": pa.string(),
        "_0": pa.int64(),
    }
)
"""An event that a keyed fold keeps, with one argument."""

SPREAD = '''\
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Spread:
    """The variance of a sample, as `variance(x)`."""

    state_type = pa.struct({"n": pa.int64(), "mean": pa.float64(), "m2": pa.float64()})
    value_type = pa.float64()

    def start(self):
        return {"n": 0, "mean": 0.0, "m2": 0.0}

    def add(self, state, x):
        return self.merge(state, {"n": 1, "mean": float(x), "m2": 0.0})

    def merge(self, one, other):
        n = one["n"] + other["n"]
        apart = other["mean"] - one["mean"]
        mean = one["mean"] + apart * other["n"] / n
        m2 = one["m2"] + other["m2"] + apart * apart * one["n"] * other["n"] / n
        return {"n": n, "mean": mean, "m2": m2}

    def finish(self, state):
        return state["m2"] / (state["n"] - 1) if state["n"] > 1 else None
'''

WEIGHTED_MEAN = '''\
import pyarrow as pa


class WeightedMean:
    """The mean of x, in which an event counts as often as its weight says."""

    state_type = pa.struct({"total": pa.float64(), "weight": pa.float64()})
    value_type = pa.float64()

    def start(self):
        return {"total": 0.0, "weight": 0.0}

    def add(self, state, x, weight):
        return {"total": state["total"] + x * weight, "weight": state["weight"] + weight}

    def merge(self, one, other):
        return {name: one[name] + other[name] for name in one}

    def finish(self, state):
        return state["total"] / state["weight"] if state["weight"] else None
'''

KNOWN_WORDS = '''\
import pyarrow as pa


class KnownWords:
    """All words, each once, in order and with commas."""

    state_type = pa.list_(pa.string())
    value_type = pa.string()

    def start(self):
        return []

    def add(self, state, word):
        return sorted({*state, word})

    def merge(self, one, other):
        return sorted({*one, *other})

    def finish(self, state):
        return ",".join(state)
'''

WORD_COUNTS = '''\
import pyarrow as pa


class WordCounts:
    """All words in order, each with its number of events."""

    state_type = pa.list_(pa.struct({"word": pa.string(), "n": pa.int64()}))
    value_type = pa.string()

    def start(self):
        return []

    def add(self, state, word):
        return self.merge(state, [{"word": word, "n": 1}])

    def merge(self, one, other):
        counts = {}
        for count in [*one, *other]:
            counts[count["word"]] = counts.get(count["word"], 0) + count["n"]
        return [{"word": word, "n": counts[word]} for word in sorted(counts)]

    def finish(self, state):
        return " ".join(f"{count['word']}:{count['n']}" for count in state)
'''

CLASSES = {"spread": SPREAD, "weighted_mean": WEIGHTED_MEAN, "known_words": KNOWN_WORDS, "word_counts": WORD_COUNTS}


TRAIL = '''\
import pyarrow as pa


class Trail:
    """The values of x in the order of their events, with commas."""

    most = 5
    value_type = pa.string()

    def start(self):
        return []

    def step(self, state, at, x):
        return [*state, x]

    def finish(self, state):
        return ",".join(map(str, state))
'''

UNTIL_THIRD = '''\
import pyarrow as pa


class UntilThird:
    """The seconds from the first event to the third one."""

    most = 4
    value_type = pa.float64()

    def start(self):
        return []

    def step(self, state, at, x):
        return [*state, at]

    def done(self, state):
        return len(state) == 3

    def finish(self, state):
        return (state[2] - state[0]).total_seconds() if len(state) == 3 else None
'''

FOLDS = {"trail": TRAIL, "until_third": UNTIL_THIRD}


def keyed_fold(name: str, argument: str, where: str | None = None) -> Measure:
    """The measure that ``name(argument) where …`` declares, with a keyed fold."""
    own = UserMeasure(kind="fold", name=name, code=FOLDS[name])
    return Measure(kind="fold", argument=argument, where=where, user_measure=own)


def user_measure(name: str, argument: str, where: str | None = None) -> Measure:
    """The measure that ``name(argument) where …`` declares."""
    own = UserMeasure(name=name, code=CLASSES[name])
    return Measure(kind="user_defined", argument=argument, where=where, user_measure=own)
