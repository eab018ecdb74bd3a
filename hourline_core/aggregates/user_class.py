"""Runs the class of a user-defined measure, from its text."""

import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from hashlib import sha256
from itertools import islice
from types import ModuleType
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.base import UnsuitableArgumentError
from hourline_core.errors import MeasureError
from hourline_core.model import UserMeasure

METHODS = {"start": (), "add": ("state", "x"), "merge": ("one", "other"), "finish": ("state",)}
"""The methods of a class, each with names for its arguments. ``add`` may have more of them."""
ADDRESS = ("topic", "partition", "offset")
"""Behind the arguments, what a folded event has: where it is in Kafka, or in an imported file."""
_TIME = pa.timestamp("us", tz="UTC")
_PLAIN = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]
_PLAIN += [pa.date32(), _TIME]


class UnusableClassError(UnsuitableArgumentError):
    """The text of a user-defined measure gives no class that can be used. The message begins with file and line."""


@dataclass(frozen=True)
class UserClass:
    """The class of a user-defined measure, whose methods can be called."""

    measure: UserMeasure
    start: Callable[[], Any]
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    state_type: pa.DataType
    value_type: pa.DataType
    examples: Sequence[tuple[Any, ...]]
    """Arguments of events, which ``find_unmergeable`` tries it on. Empty: those that it generates."""

    def fold(self, events: pa.Array) -> pa.Array:
        """The state of each list of events: structs of the arguments and ADDRESS. Null for none.

        Raises MeasureError, which names the event.
        """
        rows = pc.list_flatten(events)
        *arguments, topics, partitions, offsets = [rows.field(place) for place in range(rows.type.num_fields)]
        numbered = enumerate(zip(*(argument.to_pylist() for argument in arguments), strict=True))
        states, place = [], 0
        for length in pc.list_value_length(events).to_pylist():
            try:
                state = self.start() if length else None
                for place, values in islice(numbered, length or 0):  # noqa: B007 (it is for the message)
                    state = _state(self.add(state, *values))
            except Exception as error:
                address = f"{topics[place]} partition {partitions[place]} offset {offsets[place]}"
                self._fail(f"add for the event at {address}", error, ", or leave such events out with `where`")
            states.append(state)
        return self._as_array("add", states, self.state_type)

    def merge_all(self, states: pa.Array) -> pa.Array:
        """The merged state of each list of states. Null for none. Raises MeasureError."""
        merged = []
        for some in states.to_pylist():
            try:
                merged.append(_state(reduce(self.merge, some)) if some else None)
            except Exception as error:
                self._fail("merge", error)
        return self._as_array("merge", merged, self.state_type)

    def finish_all(self, states: pa.Array) -> pa.Array:
        """The value of each state, null for null. Raises MeasureError."""
        values = []
        for state in states.to_pylist():
            try:
                values.append(None if state is None else self.finish(state))
            except Exception as error:
                self._fail("finish", error)
        return self._as_array("finish", values, self.value_type)

    def _as_array(self, method: str, values: Sequence[Any], of: pa.DataType) -> pa.Array:
        try:
            return pa.array(values, of)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            self._fail(f"{method}, which has to give {of}", error)

    def _fail(self, method: str, error: Exception, otherwise: str = "") -> NoReturn:
        cause = f"{describe_exception(error)}, {place_in(self.measure, error)}"
        raise MeasureError(
            f"the measure '{self.measure.name}' failed in {method} ({cause}): mend {self.measure.file}{otherwise}"
        ) from None


def _state(given: Any) -> Any:
    """What a method gave, unless it is None: stored as null, it would be no state, and its events would be lost."""
    if given is None:
        raise TypeError("it returned None, which is no state")
    return given


def function_of(step: str, measure: UserMeasure) -> str:
    """The name of the function of SQL for a step (``fold``, ``merge`` or ``finish``). Each text has its own."""
    return f"{step}_{measure.name}_{sha256(measure.code.encode()).hexdigest()[:12]}"


@cache
def load_class(measure: UserMeasure) -> UserClass:
    """Run the text of a user-defined measure. Raises UnusableClassError with everything that is wrong with it."""
    module = ModuleType(f"_hourline_{function_of('measure', measure)}")
    sys.modules[module.__name__] = module  # where dataclasses look for it
    try:
        exec(compile(measure.code, measure.file, "exec"), module.__dict__)  # noqa: S102 (the project's own code)
        made = getattr(module, measure.class_name)()
    except (Exception, SystemExit) as error:
        raise UnusableClassError(f"{place_in(measure, error)}: {describe_exception(error)}") from None
    mistakes = [*_find_missing(measure, made), *_find_unknown_types(measure, made)]
    if mistakes:
        raise UnusableClassError("; ".join(f"{measure.file}:{mistake}" for mistake in mistakes))
    examples = [one if isinstance(one, tuple) else (one,) for one in getattr(made, "examples", ())]
    methods = (made.start, made.add, made.merge, made.finish)
    return UserClass(measure, *methods, made.state_type, made.value_type, examples)


def refuse_arguments(loaded: UserClass, arguments: Sequence[str]) -> None:
    """Raise UnusableClassError unless ``add`` takes that number of arguments beside the state."""
    signature = inspect.signature(loaded.add)
    try:
        signature.bind(None, *arguments)
    except TypeError:
        takes = ", ".join(list(signature.parameters)[1:]) or "none"
        raise UnusableClassError(
            f"{loaded.measure.file}:{line_of(loaded.add)}: got the arguments {', '.join(arguments)}, add takes {takes}"
        ) from None


def line_of(method: Callable[..., Any]) -> int:
    """The line of a method in its file. 1 for one that was not written there."""
    code = getattr(method, "__code__", None)
    return code.co_firstlineno if code else 1


def place_in(measure: UserMeasure, error: BaseException) -> str:
    """Where in the file an exception came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == measure.file]
    own = error.lineno if isinstance(error, SyntaxError) else None
    return f"{measure.file}:{own or (lines[-1] if lines else 1)}"


def describe_exception(error: BaseException) -> str:
    """The exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _find_missing(measure: UserMeasure, made: Any) -> list[str]:
    """The methods that a class lacks, each with its line."""
    line = line_of_class(measure)
    return [
        f"{line}: {measure.class_name} has no method {name}({', '.join(('self', *arguments))})"
        for name, arguments in METHODS.items()
        if not callable(getattr(made, name, None))
    ]


def _find_unknown_types(measure: UserMeasure, made: Any) -> list[str]:
    found = []
    for name, is_known, allowed in (
        ("state_type", _is_state_type, "of bool_, int8 to int64, float32, float64, string, binary, decimal128, date32, "
         "timestamp('us', tz='UTC'), list_ and struct"),
        ("value_type", _is_value_type, "that is one of bool_, int8 to int64, float32, float64, string, date32, "
         "decimal128 and timestamp('us', tz='UTC')"),
    ):  # fmt: skip
        got = getattr(made, name, None)
        if not is_known(got):
            found.append(
                f"{line_of_class(measure)}: got {name} = {'nothing' if got is None else got}, allowed is a type of "
                f"pyarrow {allowed}"
            )
    return found


def _is_value_type(got: Any) -> bool:
    return isinstance(got, pa.DataType) and (got in _PLAIN or pa.types.is_decimal128(got))


def _is_state_type(got: Any) -> bool:
    if not isinstance(got, pa.DataType):
        return False
    if pa.types.is_list(got):
        return _is_state_type(got.value_type)
    if pa.types.is_struct(got):
        return got.num_fields > 0 and all(_is_state_type(field.type) for field in got)
    return got == pa.binary() or _is_value_type(got)


def line_of_class(measure: UserMeasure) -> int:
    """The line at which the class begins."""
    lines = measure.code.splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.startswith(f"class {measure.class_name}")), 1)
