"""Lets every part of a value be null: a struct of a literal or an entry of a map has parts that never are.

Arrow and Delta take no null for a struct with such a part, and no later value in which the part is null.
"""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.types import ArrayType, MapType, StructType


def with_nullable_parts(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """The frame, in whose columns ``names`` every part may be null."""
    chosen = set(names)
    types = {column.name: column.dataType for column in frame.schema.toNullable() if column.name in chosen}
    nested = {name: of for name, of in types.items() if isinstance(of, ArrayType | MapType | StructType)}
    return frame.withColumns({name: F.col(f"`{name}`").cast(of) for name, of in nested.items()}) if nested else frame
