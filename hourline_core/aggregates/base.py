"""The interface of an aggregate: mergeable partial states, their merge and the finished value.

The steps are those of a mergeable aggregate (Agarwal et al., "Mergeable Summaries", 2012). Spark evaluates what the
aggregate takes of each event, or DuckDB does if it can. DuckDB folds that into the partial states of one tile. It
merges the states of several tiles, in any order and grouping, and finishes them. SQL is text here: this room needs
neither engine.

| kind     | states                                                                | finished value             |
|----------|-----------------------------------------------------------------------|----------------------------|
| count    | rows, bigint                                                          | bigint                     |
| sum      | total                                                                 | as the state               |
| min, max | extreme, of the argument's type                                       | as the state               |
| first,   | event time, partition, offset, place, topic and value of the event    | the value                  |
| last     |                                                                       |                            |
| mean     | n, bigint; total as for sum                                           | double                     |
| variance | n, bigint; mean, double; M2, the sum of squared deviations from the   | double                     |
| stddev   | mean, double; likewise for var_pop and stddev_pop                     |                            |
| quantile | the numbers of values (y, double) in log buckets (x, int), as a list   | double, within 1 %         |
| distinct | theta sketch (Apache DataSketches), 2^12 nominal entries, binary      | bigint, exact up to 4,096  |
|          |                                                                       | values, then within 3 %    |
| top      | frequent-items sketch (Apache DataSketches) of 2^11 entries, a struct  | list of value (varchar), |
|          | as Spark's approx_top_k_accumulate gives it; n, bigint                 | count and error (bigint) |
| ratio    | none; it is finished from the values of two other measures            | double                     |
| rate     | none; it is finished from the value of another measure                | double                   |
| any,     | whether the condition was true of one event, or of all, boolean       | as the state               |
| every    |                                                                       |                            |
| a user's | as its class says; n, the number of its events, bigint                | as its class says          |
| fold     | its first events, a list of structs; n, bigint                        | as its class says          |

A value is null where no argument was not null, but for count and distinct, which are zero. The variance and stddev of
a sample need two arguments. A ratio is null where its divisor is zero. The 3 % hold at 95 % confidence. For an event
that does not fulfil the measure's ``where``, the argument is null.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pyarrow as pa

from hourline_core.model import Measure
from hourline_core.model.expressions import attempt

TOLERANCE = 1e-9
"""The difference of two sums of doubles that the order of addition explains, relative to their magnitude."""


class UnsuitableArgumentError(ValueError):
    """The aggregate does not accept an argument of that type. The message names the types that it accepts."""


class StateColumn(NamedTuple):
    """A stored column, as DuckDB sees it."""

    sql: str
    """The column as an expression, quoted if necessary."""
    type: str
    """Such as ``BIGINT``."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """One measure as an aggregate."""

    measure: Measure

    states: ClassVar[tuple[str, ...]] = ("",)
    """For each state, the part of its column's name after the measure's name."""
    is_exact: ClassVar[bool] = True
    """Whether two ways to compute a value agree, apart from the order in which doubles are added."""
    error: ClassVar[str] = ""
    """How near a value is to the truth, in words. Empty: it is exact, or tells its error itself."""
    is_never_null: ClassVar[bool] = False
    """Whether every group with events has a value."""
    starts_at_zero: ClassVar[bool] = False
    """Whether the value without events is zero, so that the first events change it by their whole amount."""
    needs_functions: ClassVar[bool] = False
    """Whether merging or finishing needs functions of the room ``sql``, which DuckDB has only in Python."""
    adds_numbers: ClassVar[bool] = False
    """Whether arguments are added up, so that the last digits of doubles depend on their order. See ``magnitude``."""

    def columns(self, name: str) -> list[str]:
        """The stored columns of the measure ``name``, in the order of ``states``."""
        return [f"{name}{state}" for state in self.states]

    @property
    def argument(self) -> str:
        """Spark SQL: the measure's argument over one event. Null for an event that does not fulfil its ``where``, and
        where one of the two raises.
        """
        argument, where = self.measure.argument, self.measure.where
        return attempt(f"{argument}" if where is None else f"CASE WHEN ({where}) THEN ({argument}) END")

    @abstractmethod
    def values(self, argument_type: str) -> list[str]:
        """The Spark SQL expressions over one event that the states are made of.

        ``argument_type`` is the argument's Spark type as ``simpleString`` writes it ("" for count). Raises
        UnsuitableArgumentError if the aggregate does not accept that type.
        """

    @abstractmethod
    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """The type of each state's column, by the type of the argument, which ``values`` accepts. The argument of a
        user's class is a struct of its arguments. Without an argument, any type will do.
        """

    @abstractmethod
    def folds(self, values: Sequence[str]) -> list[str]:
        """The DuckDB SQL aggregate over events for each state. ``values`` are the columns that hold the values.

        What it gives may have a wider type than the state's column, and has to be cast to that.
        """

    @abstractmethod
    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """The DuckDB SQL aggregate that merges each state, with the state's type."""

    @abstractmethod
    def finish(self, states: Sequence[str]) -> str:
        """DuckDB SQL for the finished value, from the merged states (as expressions)."""

    def agrees(self, one: str, other: str) -> str:
        """DuckDB SQL: whether two different values may be of the same events, by the errors that they tell."""
        return "false"

    def magnitude(self, states: Sequence[float], absolute: float) -> float:
        """A number in the unit of the value, from the merged states of events with an argument and from ``absolute``,
        the sum of the absolute values of the arguments. Only for an aggregate that adds up numbers.

        If doubles are added in another order, the value changes by at most TOLERANCE of it, also if they cancel out. It
        is the magnitude of what is added up, unless digits are lost otherwise.
        """
        return absolute
