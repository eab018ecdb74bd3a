"""Lets DuckDB read the files of a share itself, in one query with the fold.

DuckDB reads and folds events in less than half the time that it takes to fold what Arrow has read. It writes no row of
them into memory. Arrow reads what the totals need, so the audit compares two readings of the files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from batch_layer.folding.shares import Share
from hourline_core.compute.worker_database import connect
from hourline_core.model.scratch_columns import HOUR, SEQUENCE
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import identifier, literal

_ROW = "file_row_number"
"""DuckDB's name of the place of a row in its file."""


def can_query(folder: str, archived: pa.Schema) -> bool:
    """Whether DuckDB reads the files of ``folder``, and no others: it takes a name with these characters for a pattern.
    It refuses a file with a column of its own name.
    """
    return not set(folder) & set("*?[") and _ROW not in map(str.casefold, archived.names)


@dataclass(frozen=True)
class FileQuery:
    """How DuckDB reads the events of an archive in a local folder."""

    folder: str
    columns: Mapping[str, str]
    """The columns that are read, with their names in the archive."""
    schema: pa.Schema
    """These columns as they are archived."""
    expressions: Mapping[str, str]
    """The columns that are computed of them, in DuckDB's SQL."""

    def of(self, share: Share, hours: Sequence[datetime], cutoff: int) -> Iterator[str]:
        """For each slice of ``share``, the query for its events of ``hours`` up to the sequence ``cutoff``.

        Raises OSError or ArrowInvalid if a file cannot be read.
        """
        types, computed = self._types(), [f"{sql} AS {identifier(name)}" for name, sql in self.expressions.items()]
        chosen = [hour for hour in hours if share.first <= hour <= share.last]
        within = f"{HOUR} BETWEEN {literal(chosen[0])} AND {literal(chosen[-1])} AND {SEQUENCE} <= {cutoff}"
        if len(chosen) <= (chosen[-1] - chosen[0]) // HOURLY.size:
            within += f" AND {HOUR} IN ({', '.join(map(literal, chosen))})"
        for path, first, end in share.slices:
            file = f"{self.folder.rstrip('/')}/{path}"
            there = set(pq.read_schema(file).names)
            # A column that was declared later is null in an older file.
            read = [
                f"({identifier(of) if of in there else 'NULL'})::{types[of]} AS {identifier(name)}"
                for name, of in self.columns.items()
            ]
            # What an older version wrote has ranges of doubles, which say nothing of NaN.
            options = f"{_ROW} = true, hive_partitioning = false, can_have_nan = true"
            rows = f"FROM read_parquet({literal(file)}, {options})"
            rows += f" WHERE {_ROW} >= {first} AND {_ROW} < {end}"
            yield f"SELECT {', '.join(['*', *computed])} FROM (SELECT {', '.join(read)} {rows}) WHERE {within}"

    def _types(self) -> dict[str, str]:
        """By column of the archive, its type in DuckDB."""
        with connect() as connection:
            connection.register("archived", self.schema.empty_table())
            return {name: of for name, of, *_ in connection.execute("DESCRIBE archived").fetchall()}
