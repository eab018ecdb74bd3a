"""The columns of a table: each with its type and its meaning, which the reference shows."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table. All columns are nullable."""

    type: pa.DataType
    meaning: str
    """One or two sentences, with the meaning of null."""


Columns = Mapping[str, Column]
"""The columns of a table by name, in their order."""


def schema_of(columns: Columns) -> pa.Schema:
    """The Arrow schema of a table with these columns."""
    return pa.schema({name: column.type for name, column in columns.items()})
