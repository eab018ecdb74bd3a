"""The measures that classes of the project define, by the plain methods of these classes."""

from typing import Any

import pyarrow as pa

from batch_layer.recount.equality import are_near
from batch_layer.recount.folds import Fold, event_order
from batch_layer.recount.read_rows import Row
from hourline_core.aggregates import TOLERANCE
from hourline_core.aggregates.user_classes.attempts import Failure, attempt
from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.measure_class import UserClass, load_class
from hourline_core.model import Measure, UserMeasure


class UserDefinedFold(Fold):
    """A class with ``start``, ``add``, ``merge`` and ``finish``."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._loaded = load_class(_class_of(measure))
        self._state: Any = None
        """The state, or why the class gives none. None: there was no event yet."""

    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """See Fold. No argument is null, or all are."""
        if arguments[0] is None or isinstance(self._state, Failure):
            return
        before = self._state
        self._state = attempt(self._loaded.measure, self._added, before, arguments)
        if isinstance(self._state, Failure) and before is not None:
            # What ``add`` does not take at this state may be merged. By the law of merging, that is the same.
            self._state = attempt(self._loaded.measure, self._merged, before, arguments)

    def value(self) -> Any:
        """See Fold. Null where the class fails."""
        if self._state is None or isinstance(self._state, Failure):
            return None
        finished = attempt(self._loaded.measure, self._finished)
        return None if isinstance(finished, Failure) else finished

    def agrees(self, published: Any) -> bool:
        """See Fold. Doubles depend on the order of merging."""
        return are_near(published, self.value(), TOLERANCE)

    def _added(self, state: Any, arguments: tuple[Any, ...]) -> Any:
        return _known(self._loaded.add(self._loaded.start() if state is None else state, *arguments))

    def _merged(self, state: Any, arguments: tuple[Any, ...]) -> Any:
        return _known(self._loaded.merge(state, self._added(None, arguments)))

    def _finished(self) -> Any:
        # The class gets its state as it is stored.
        return _stored(self._loaded.finish(_stored(self._state, self._loaded.state_type)), self._loaded.value_type)


class KeyedFoldFold(Fold):
    """A class with ``start``, ``step`` and ``finish``. The first events of the group are held in memory."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._loaded = load_fold(_class_of(measure))
        self._count = 0
        self._events: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []

    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """See Fold. No argument is null, or all are."""
        if arguments[0] is None:
            return
        self._count += 1
        self._events.append((event_order(row), arguments))
        if len(self._events) >= 2 * self._loaded.most:
            self._keep_first()

    def value(self) -> Any:
        """See Fold. Null where the class fails, and where it needs more events than are kept."""
        if not self._count:
            return None
        self._keep_first()
        finished = attempt(self._loaded.measure, self._finished)
        return None if isinstance(finished, Failure) else finished

    def _keep_first(self) -> None:
        self._events.sort(key=lambda event: event[0])
        del self._events[self._loaded.most :]

    def _finished(self) -> Any:
        state, is_done = self._loaded.start(), False
        for (at, *_), arguments in self._events:
            state = self._loaded.step(state, at, *arguments)
            if is_done := self._loaded.done(state):
                break
        is_whole = is_done or self._count == len(self._events)
        return _stored(self._loaded.finish(state), self._loaded.value_type) if is_whole else None


def fails_alone(loaded: UserClass, arguments: tuple[Any, ...]) -> bool:
    """Whether a class fails for an event alone. Then the event is in quarantine, and the metric does not count it. A
    class that fails without an event is no reason.
    """
    if arguments[0] is None or isinstance(attempt(loaded.measure, loaded.start), Failure):
        return False
    alone = attempt(loaded.measure, lambda: _stored(_known(loaded.add(loaded.start(), *arguments)), loaded.state_type))
    return isinstance(alone, Failure)


def _class_of(measure: Measure) -> UserMeasure:
    assert measure.user_measure is not None
    return measure.user_measure


def _known(state: Any) -> Any:
    if state is None:
        raise TypeError("it returned None, which is no state")
    return state


def _stored(value: Any, of: pa.DataType) -> Any:
    """The value as a column of its type gives it. Raises what pyarrow raises if it is of another type."""
    return pa.array([value], of)[0].as_py()
