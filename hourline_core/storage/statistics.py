"""Which columns of a data file have statistics: those whose ranges are right for every reader.

Readers leave out a file, or a group of its rows, whose range does not fulfil a condition. Parquet's range of numbers
with a fraction has no NaN, which DuckDB, Spark and DataFusion take for the largest number. delta-rs turns the range of
a decimal into a double, which may leave the decimal out.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties

ROWS_IN_GROUP = 8192
"""A reader skips groups of rows by their smallest and largest values. In a file with a year, a day is a few groups of
this size.
"""


def columns_with_range(schema: pa.Schema) -> list[str]:
    """The plain columns, also those of structs, that a file has statistics of, by Parquet's names."""
    return [".".join(path) for path, of in _types(schema) if not _is_unsafe(of)]


def leaves(fields: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The plain columns, also those of structs, with Parquet's name of each. Lists and maps have none."""
    return ((".".join(path), path) for path, _ in _types(fields, above))


def _types(fields: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    for column in fields:
        path = (*above, column.name)
        if pa.types.is_struct(column.type):
            yield from _types(column.type, path)
        elif not pa.types.is_nested(column.type):
            yield path, column.type


def writer_properties(schema: pa.Schema, rows_in_group: int | None = None) -> WriterProperties:
    """delta-rs' properties of files with the columns of ``schema``. Readers skip groups of ``rows_in_group`` sorted
    rows.
    """
    without, default = ColumnProperties(statistics_enabled="NONE"), None
    columns = {column.name: without for column in schema if _is_unsafe(column.type)}
    if any(pa.types.is_nested(column.type) and has_unsafe(column.type) for column in schema):
        # delta-rs has no name for a column within another one.
        default, written = without, ColumnProperties(statistics_enabled="PAGE")
        columns = {c.name: written for c in schema if not pa.types.is_nested(c.type) and not _is_unsafe(c.type)}
    return WriterProperties(
        compression="SNAPPY",  # There is none by default if other properties are given.
        max_row_group_size=rows_in_group,
        default_column_properties=default,
        column_properties=columns,
    )


def has_unsafe(of: pa.DataType) -> bool:
    """Whether a value of a type has, at any depth, a number whose range may be wrong."""
    if pa.types.is_nested(of):
        return any(has_unsafe(of.field(place).type) for place in range(of.num_fields))
    return _is_unsafe(of)


def _is_unsafe(of: pa.DataType) -> bool:
    return bool(pa.types.is_floating(of) or pa.types.is_decimal(of))
