"""What the rows of past hours look like, column by column: counted by DuckDB, for suggestions of expectations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from statistics import median

import duckdb

from batch_layer.audit.suggestions.groups import SeenGroup, read_groups
from hourline_core.sql.literals import identifier

SEEN = "seen_rows"
"""The table or view with the rows: hour, and the columns."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_MOST_VALUES = 20
_ROWS_OF_AN_ID = 1000


@dataclass(frozen=True)
class SeenHour:
    """One hour of a column."""

    rows: int
    filled: int
    """The number of rows in which it is not null."""
    values: int
    """The number of its distinct values in the hour."""


@dataclass(frozen=True)
class SeenColumn:
    """A column over all hours with rows."""

    name: str
    type: str
    """DuckDB's name of its type."""
    hours: Mapping[datetime, SeenHour]
    distinct: int
    """The number of distinct values over all hours."""
    least: float | None
    """The least value. None: it has no numbers."""
    greatest: float | None
    values: Mapping[str, int]
    """Each value of a text, with the number of full hours that have it. Empty if it has many values, or is no text."""
    groupings: Mapping[str, Sequence[SeenGroup]]
    """Of a number: by the name of a text column with few values, the numbers in the rows of each of its values."""

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return self.type == "VARCHAR"

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.type.endswith("INT") or self.type == "INTEGER" or self.type.endswith(",0)")

    @property
    def is_unique(self) -> bool:
        """Whether no value occurs twice, as in an id. Numbers in few rows may be so by chance."""
        return self.distinct == self.filled and (self.is_text or (self.is_whole and self.filled >= _ROWS_OF_AN_ID))

    @property
    def filled(self) -> int:
        """The number of rows in which it is not null."""
        return sum(hour.filled for hour in self.hours.values())


@dataclass(frozen=True)
class SeenRows:
    """The rows of past hours."""

    hours: Mapping[datetime, int]
    """Each hour (UTC), in order, with the number of its rows, which may be 0."""
    columns: Sequence[SeenColumn]

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(self.hours.values())

    @property
    def usual(self) -> float:
        """The median of the numbers of rows, over the hours that have some."""
        return median([rows for rows in self.hours.values() if rows] or [0])

    @property
    def least_of_full(self) -> int:
        """The number of rows from which on an hour is *full*: half of the usual ones."""
        return max(1, ceil(self.usual / 2))

    def hours_with(self, rows: int) -> int:
        """The number of hours that have at least that number of ``rows``."""
        return sum(count >= rows for count in self.hours.values())


def describe_rows(connection: duckdb.DuckDBPyConnection, hours: Sequence[datetime]) -> SeenRows:
    """What is in the table or view SEEN, which has rows of ``hours`` (UTC) only."""
    kinds = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {SEEN}").fetchall() if name != "hour"}
    plain = [name for name, kind in kinds.items() if kind in ("VARCHAR", "BOOLEAN") or is_number(kind)]
    counts = [f"count({identifier(name)}), count(DISTINCT {identifier(name)})" for name in plain]
    by_hour = connection.execute(f"SELECT {', '.join(['hour', 'count(*)', *counts])} FROM {SEEN} GROUP BY hour")
    found = {hour: (rows, numbers) for hour, rows, *numbers in by_hour.fetchall()}
    query = ", ".join(f"count(DISTINCT {identifier(name)})" for name in plain)
    (distinct,) = connection.execute(f"SELECT {query or 0} FROM {SEEN}").fetchall()
    sizes = {hour: found[hour][0] if hour in found else 0 for hour in hours}
    full = SeenRows(sizes, []).least_of_full
    columns = []
    for place, name in enumerate(plain):
        seen = {hour: SeenHour(rows, *numbers[2 * place : 2 * place + 2]) for hour, (rows, numbers) in found.items()}
        limits = _read_limits(connection, name) if is_number(kinds[name]) else (None, None)
        few = kinds[name] == "VARCHAR" and max((one.values for one in seen.values()), default=0) <= _MOST_VALUES
        values = _read_values(connection, name, full) if few else {}
        columns.append(SeenColumn(name, kinds[name], seen, distinct[place], *limits, values, {}))
    return SeenRows(sizes, _add_groupings(connection, columns))


def _add_groupings(connection: duckdb.DuckDBPyConnection, columns: list[SeenColumn]) -> list[SeenColumn]:
    numbers = [column.name for column in columns if column.least is not None]
    groups = {column.name: read_groups(connection, SEEN, column.name, numbers) for column in columns if column.values}
    return [
        replace(column, groupings={by: of_columns[column.name] for by, of_columns in groups.items()})
        if column.name in numbers
        else column
        for column in columns
    ]


def is_number(kind: str) -> bool:
    """Whether ``kind``, DuckDB's name of a type, is one of numbers. Arrays of them are not: ``BIGINT[]``."""
    return kind.startswith(_NUMBERS) and not kind.endswith("]")


def _read_limits(connection: duckdb.DuckDBPyConnection, name: str) -> tuple[float | None, float | None]:
    value = f"{identifier(name)}::DOUBLE"
    query = f"SELECT min({value}), max({value}) FROM {SEEN} WHERE isfinite({value})"
    ((least, greatest),) = connection.execute(query).fetchall()
    return least, greatest


def _read_values(connection: duckdb.DuckDBPyConnection, name: str, full: int) -> dict[str, int]:
    column = identifier(name)
    full_hours = f"SELECT hour FROM {SEEN} GROUP BY hour HAVING count(*) >= {full}"
    rows = connection.execute(
        f"SELECT {column}, count(DISTINCT hour) FILTER (hour IN ({full_hours})) FROM {SEEN} "
        f"WHERE {column} IS NOT NULL GROUP BY ALL ORDER BY 1 LIMIT {_MOST_VALUES + 1}"
    ).fetchall()
    return dict(rows) if len(rows) <= _MOST_VALUES else {}
