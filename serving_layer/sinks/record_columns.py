"""The columns of a sink's records, and the schema before: from these, each format makes a schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hourline_core.formats.registry.written_schema import WrittenSchema
from hourline_core.model import Metric

_MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class RecordColumns:
    """The columns of keys or of values. They are given as JSON objects that have all of them."""

    name: str
    """The name of the record in a schema."""
    required: Mapping[str, pa.DataType]
    """Those that are never null."""
    nullable: Mapping[str, pa.DataType]
    """Those that may be null: the dimensions or measures. A schema has them behind the others."""
    nan_is_text: bool = False
    """Whether NaN and infinities are texts, as in keys. They are null otherwise."""


FindNewest = Callable[[], WrittenSchema | None]
"""Asks a registry for the newest schema of a subject, of whatever kind. None: there is none."""


def no_schema() -> None:
    """There is none."""


def key_columns(metric: Metric, columns: pa.Schema) -> RecordColumns:
    """Those of keys: the window and the dimensions."""
    types = {name: columns.field(name).type for name in metric.dimensions}
    return RecordColumns(
        f"{metric.name}_key", {"window_start": _MOMENT, "window_end": _MOMENT}, types, nan_is_text=True
    )


def value_columns(metric: Metric, columns: pa.Schema) -> RecordColumns:
    """Those of values: state, token and revision, and the measures."""
    types = {name: columns.field(name).type for name in metric.measures}
    required = {"state": pa.string(), "token": pa.string(), "revision": pa.int64()}
    return RecordColumns(f"{metric.name}_value", required, types)
