"""What an aggregate is: mergeable partial states in Spark SQL, their merge and the finished value in DuckDB SQL.

The steps are those of a mergeable aggregate (Agarwal et al., "Mergeable Summaries", 2012): Spark makes the partial
states of one tile; DuckDB merges the states of several tiles, in any order and grouping, and finishes them. SQL is text
here: this room needs neither engine.

| kind     | states                                                                | finished value             |
|----------|-----------------------------------------------------------------------|----------------------------|
| count    | rows, bigint                                                          | bigint                     |
| sum      | total                                                                 | as the state               |
| min, max | extreme, of the argument's type                                       | as the state               |
| mean     | n, bigint; total as for sum                                           | double                     |
| distinct | theta sketch (Apache DataSketches), 2^12 nominal entries, binary      | bigint, exact up to 4,096  |
|          |                                                                       | values, then within 3 %    |

A value is null where no argument was not null, but for count and distinct, which are zero. The 3 % hold at 95 %
confidence.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hourline_core.model import Measure


class UnsuitableArgumentError(ValueError):
    """The measure cannot be computed over an argument of that type; the message says which types it takes."""


class StateColumn(NamedTuple):
    """A stored column, as DuckDB has it."""

    sql: str
    """The column as an expression, quoted where it has to be."""
    type: str
    """Such as ``BIGINT``."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """One measure as an aggregate."""

    measure: Measure

    states: ClassVar[tuple[str, ...]] = ("",)
    """Each state's column, by what follows the measure's name in it."""
    is_exact: ClassVar[bool] = True
    """Whether two ways to compute a value agree, but for the order in which doubles are added."""
    is_never_null: ClassVar[bool] = False
    """Whether each group with events has a value."""
    starts_at_zero: ClassVar[bool] = False
    """Whether no events are worth zero, so that the first events change the value by all that they amount to."""
    needs_functions: ClassVar[bool] = False
    """Whether merging or finishing needs the functions of sql/sketches.py, which a DuckDB outside Python lacks."""

    def columns(self, name: str) -> list[str]:
        """The stored columns of the measure, which is called ``name``; in the order of ``states``."""
        return [f"{name}{state}" for state in self.states]

    @abstractmethod
    def partials(self, argument_type: str) -> list[str]:
        """The Spark SQL aggregate over events that fills each state.

        ``argument_type`` is the argument's Spark type as ``simpleString`` writes it ("" for count). Raises
        UnsuitableArgumentError where the aggregate has no meaning for that type.
        """

    @abstractmethod
    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """The DuckDB SQL aggregate that merges each state, to the type that it has."""

    @abstractmethod
    def finish(self, states: Sequence[str]) -> str:
        """DuckDB SQL for the finished value, over the merged states (as expressions)."""

    @property
    def magnitude(self) -> str | None:
        """A Spark SQL aggregate (double) over events: the size of what is added up, in the unit of the value.

        The error of adding doubles in another order is relative to it, also where they cancel out. None: nothing but
        counts is added.
        """
        return None
