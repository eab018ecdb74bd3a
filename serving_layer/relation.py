"""A DuckDB relation whose errors are Hourline's, also those that come up only while its rows are fetched."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import duckdb
import pyarrow as pa

Explaining = Callable[[], AbstractContextManager[None]]
"""Makes a block that turns DuckDB's errors into Hourline's."""


class Relation:
    """The result of a query: all that a ``duckdb.DuckDBPyRelation`` has and does. Its methods raise UsageError and
    TableError as ``Connection.sql`` does, at whatever time DuckDB computes.

    A method with arguments may name any view, so ``attach_all`` attaches all of them before.
    """

    fetchall: Callable[[], list[tuple[Any, ...]]]  # as are all others, by __getattr__

    def __init__(
        self, relation: duckdb.DuckDBPyRelation, explaining: Explaining, attach_all: Callable[[], None]
    ) -> None:
        self.bare = relation
        """DuckDB's own relation, for expressions that name no view. It raises DuckDB's errors."""
        self._explaining = explaining
        self._attach_all = attach_all

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for some before there is a relation.
            raise AttributeError(name)
        with self._explaining():
            found = getattr(self.bare, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            with self._explaining():
                if arguments or named:
                    self._attach_all()
                return self._wrapped(found(*map(_bare, arguments), **named))

        return call

    def __getitem__(self, name: str) -> Any:
        with self._explaining():
            return self._wrapped(self.bare[name])

    def __contains__(self, name: str) -> bool:
        return name in self.bare

    def __len__(self) -> int:
        with self._explaining():
            return len(self.bare)

    def __repr__(self) -> str:
        with self._explaining():
            return repr(self.bare)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow_reader().__arrow_c_stream__(requested_schema)

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, duckdb.DuckDBPyRelation):
            return Relation(result, self._explaining, self._attach_all)
        if isinstance(result, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(result.schema, self._batches(result))
        return result

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._explaining():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except OSError as error:  # as which Arrow gives the text of any error of DuckDB
                    kind = duckdb.IOException if str(error).startswith("IO Error") else duckdb.InvalidInputException
                    raise kind(str(error)) from None
            yield batch


def _bare(value: Any) -> Any:
    """Another relation, as DuckDB takes it."""
    return value.bare if isinstance(value, Relation) else value
