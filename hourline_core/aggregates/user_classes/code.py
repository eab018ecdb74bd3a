"""Runs the text of a class that a project defines, and tells what is wrong with it, by file and line."""

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from types import ModuleType
from typing import Any

import pyarrow as pa

from hourline_core.aggregates.base import UnsuitableArgumentError
from hourline_core.model import UserMeasure

_TIME = pa.timestamp("us", tz="UTC")
_PLAIN = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]
_PLAIN += [pa.date32(), _TIME]
ALLOWED_VALUES = (
    "a type of pyarrow that is one of bool_, int8 to int64, float32, float64, string, date32, decimal128 and "
    "timestamp('us', tz='UTC')"
)


class UnusableClassError(UnsuitableArgumentError):
    """The text of a user-defined measure gives no class that can be used. The message begins with file and line."""


def function_of(step: str, measure: UserMeasure) -> str:
    """The name of the function of SQL for a step, such as ``merge``. Each text has its own."""
    return f"{step}_{measure.name}_{sha256(measure.code.encode()).hexdigest()[:12]}"


def make_instance(measure: UserMeasure) -> Any:
    """Run the text, and make an instance of its class. Raises UnusableClassError."""
    module = ModuleType(f"_hourline_{function_of('measure', measure)}")
    sys.modules[module.__name__] = module  # where dataclasses look for it
    try:
        exec(compile(measure.code, measure.file, "exec"), module.__dict__)  # noqa: S102 (the project's own code)
        return getattr(module, measure.class_name)()
    except (Exception, SystemExit) as error:
        raise UnusableClassError(f"{place_in(measure, error)}: {describe_exception(error)}") from None


def refuse_mistakes(measure: UserMeasure, mistakes: Sequence[str]) -> None:
    """Raise UnusableClassError if there are ``mistakes``, each of which begins with its line."""
    if mistakes:
        raise UnusableClassError("; ".join(f"{measure.file}:{mistake}" for mistake in mistakes))


def find_missing(measure: UserMeasure, made: Any, methods: Mapping[str, Sequence[str]]) -> list[str]:
    """The methods that a class lacks. ``methods`` gives names for the arguments of each."""
    line = line_of_class(measure)
    return [
        f"{line}: {measure.class_name} has no method {name}({', '.join(('self', *arguments))})"
        for name, arguments in methods.items()
        if not callable(getattr(made, name, None))
    ]


def find_unknown(
    measure: UserMeasure, made: Any, name: str, is_known: Callable[[Any], bool], allowed: str
) -> list[str]:
    """What is wrong with the attribute ``name`` of a class."""
    got = getattr(made, name, None)
    if is_known(got):
        return []
    return [f"{line_of_class(measure)}: got {name} = {'nothing' if got is None else got}, allowed is {allowed}"]


def is_value_type(got: Any) -> bool:
    """Whether ``got`` is a type of ALLOWED_VALUES."""
    return isinstance(got, pa.DataType) and (got in _PLAIN or pa.types.is_decimal128(got))


def find_wrong_examples(measure: UserMeasure, made: Any) -> list[str]:
    """What is wrong with the attribute ``examples`` of a class, which may be left out."""
    allowed = "a list of tuples, each with the arguments for one event"
    there = getattr(made, "examples", None) is not None
    return find_unknown(measure, made, "examples", lambda got: isinstance(got, (list, tuple)), allowed) if there else []


def read_examples(made: Any) -> list[tuple[Any, ...]]:
    """The attribute ``examples`` of a class: the arguments of some events."""
    return [one if isinstance(one, tuple) else (one,) for one in getattr(made, "examples", None) or ()]


def refuse_arguments(
    measure: UserMeasure, method: Callable[..., Any], before: Sequence[str], arguments: Sequence[str]
) -> None:
    """Raise UnusableClassError unless ``method`` takes ``arguments`` behind those that are named ``before``."""
    signature = inspect.signature(method)
    try:
        signature.bind(*before, *arguments)
    except TypeError:
        takes = ", ".join(list(signature.parameters)[len(before) :]) or "none"
        raise UnusableClassError(
            f"{measure.file}:{line_of(method)}: got the arguments {', '.join(arguments)}, "
            f"{getattr(method, '__name__', 'the method')} takes {takes}"
        ) from None


def line_of(method: Callable[..., Any]) -> int:
    """The line of a method in its file. 1 for one that was not written there."""
    code = getattr(method, "__code__", None)
    return code.co_firstlineno if code else 1


def line_of_class(measure: UserMeasure) -> int:
    """The line at which the class begins."""
    lines = measure.code.splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.startswith(f"class {measure.class_name}")), 1)


def place_in(measure: UserMeasure, error: BaseException) -> str:
    """Where in the file an exception came from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == measure.file]
    own = error.lineno if isinstance(error, SyntaxError) else None
    return f"{measure.file}:{own or (lines[-1] if lines else 1)}"


def describe_exception(error: BaseException) -> str:
    """The exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
