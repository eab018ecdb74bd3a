"""Suggests ranges of a number for each group of rows, where groups differ so much that one range says little."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from hourline_core.sql.literals import identifier

_HOURS = 24
"""The minimum number of hours in which a group was seen, for its range to be known."""
_FACTOR = 10.0
"""The quotient of the greatest numbers of two groups from which on they differ."""
_PLAIN = re.compile(r"[\w ./:+-]*", re.ASCII)
"""A value that is written in the same way in conditions of pandas and of Spark SQL."""


@dataclass(frozen=True)
class SeenGroup:
    """The rows of one value of a text column."""

    value: str
    hours: int
    """The number of hours that have such rows."""
    least: float
    """The least number in these rows."""
    greatest: float

    def condition(self, by: str) -> str:
        """The ``row_condition`` that chooses the rows of the column ``by`` from events, in Spark SQL, or from results,
        in that of pandas.
        """
        return f"`{by}` == '{self.value}'"


@dataclass(frozen=True)
class Grouping:
    """The groups of a text column."""

    by: str
    """The name of the column."""
    groups: Sequence[SeenGroup]


def read_groups(
    connection: duckdb.DuckDBPyConnection, table: str, by: str, columns: Sequence[str]
) -> dict[str, list[SeenGroup]]:
    """By column of numbers, the groups of the text column ``by`` that have numbers in it."""
    found: dict[str, list[SeenGroup]] = {}
    for column in columns:
        number, group = f"{identifier(column)}::DOUBLE", identifier(by)
        rows = connection.execute(
            f"SELECT {group}, count(DISTINCT hour), min({number}), max({number}) FROM {table} "
            f"WHERE {group} IS NOT NULL AND isfinite({number}) GROUP BY ALL ORDER BY 1"
        )
        found[column] = [SeenGroup(*row) for row in rows.fetchall()]
    return found


def choose_grouping(groupings: Mapping[str, Sequence[SeenGroup]]) -> Grouping | None:
    """The text column whose groups tell the numbers apart best. None: no groups differ, or too little is known."""
    differing = [Grouping(by, groups) for by, groups in groupings.items() if _differ(groups)]
    return min(differing, key=lambda one: (_width(one.groups), len(one.groups)), default=None)


def _differ(groups: Sequence[SeenGroup]) -> bool:
    if len(groups) < 2 or any(one.hours < _HOURS or not _PLAIN.fullmatch(one.value) for one in groups):
        return False
    sizes = [max(abs(one.least), abs(one.greatest)) for one in groups]
    return max(sizes) >= _FACTOR * min(sizes) and max(sizes) > 0


def _width(groups: Sequence[SeenGroup]) -> float:
    """The mean width of the groups' ranges beside that of all of them."""
    whole = max(one.greatest for one in groups) - min(one.least for one in groups)
    return sum(one.greatest - one.least for one in groups) / len(groups) / (whole or 1.0)
