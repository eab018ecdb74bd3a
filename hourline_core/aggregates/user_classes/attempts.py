"""Calls a class that may fail. What it gives, or why it failed: a failure is a result, and stops nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from hourline_core.aggregates.user_classes.code import describe_exception, place_in
from hourline_core.model import UserMeasure

T = TypeVar("T")


@dataclass(frozen=True)
class Failure:
    """A method of a class has raised, or gave what is not of the type that the class declares."""

    message: str
    """The exception, and the file and line that it came from."""


def attempt(measure: UserMeasure, call: Callable[..., T], *arguments: Any) -> T | Failure:
    """What ``call`` gives for ``arguments``, or why it failed. Raises MemoryError, which is no fault of the class."""
    try:
        return call(*arguments)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        return Failure(f"{describe_exception(error)}, {place_in(measure, error)}")


def compute_each(measure: UserMeasure, compute: Callable[[T], Any], given: Sequence[T], of: pa.DataType) -> pa.Array:
    """What ``compute`` gives for each of ``given``, as the type ``of``. Null where it fails, or gives another type."""

    def compute_all(some: Sequence[T]) -> pa.Array:
        return pa.array([compute(one) for one in some], of)

    computed = attempt(measure, compute_all, given)
    if not isinstance(computed, Failure):
        return computed
    each = [attempt(measure, compute_all, [one]) for one in given]
    return pa.concat_arrays([pa.nulls(1, of) if isinstance(one, Failure) else one for one in each])
