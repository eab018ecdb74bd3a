"""The types of the columns that tables have for each measure, by the Spark type of its argument."""

from itertools import product

import pyarrow as pa
import pytest

from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.model import Measure
from hourline_core.model.measure_text import EXAMPLES, KINDS
from hourline_core.storage.nullable_schema import nullable_type
from tests.support.user_classes import keyed_fold, user_measure

ARGUMENTS = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(1,0)": pa.decimal128(1, 0),
    "decimal(20,4)": pa.decimal128(20, 4),
    "decimal(28,9)": pa.decimal128(28, 9),
    "decimal(38,2)": pa.decimal128(38, 2),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "array<double>": pa.list_(pa.float64()),
    "struct<a:int>": pa.struct({"a": pa.int32()}),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
}
NUMBERS = [name for name in ARGUMENTS if name.startswith(("bool", "tiny", "small", "int", "big", "decimal"))]
NUMBERS += ["float", "double"]
TOTALS = {
    "boolean": "int64",
    "tinyint": "int64",
    "smallint": "int64",
    "int": "int64",
    "bigint": "decimal128(29, 0)",
    "decimal(1,0)": "decimal128(11, 0)",
    "decimal(20,4)": "decimal128(30, 4)",
    "decimal(28,9)": "decimal128(38, 9)",
    "float": "double",
    "double": "double",
}
SAME = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "decimal(1,0)": "decimal128(1, 0)",
    "decimal(20,4)": "decimal128(20, 4)",
    "decimal(28,9)": "decimal128(28, 9)",
    "decimal(38,2)": "decimal128(38, 2)",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
    "timestamp_ntz": "timestamp[us]",
}
ORDER = "at: timestamp[us, tz=UTC], partition: int32, offset: int64, place: int32, topic: string"
SKETCH = "struct<sketch: binary, maxItemsTracked: int32, itemDataType: string, itemDataTypeDDL: string>"
STATES = {
    "sum": {of: [total] for of, total in TOTALS.items()},
    "mean": {of: ["int64", total] for of, total in TOTALS.items()},
    **{kind: {of: [same] for of, same in SAME.items()} for kind in ("min", "max")},
    **{kind: {of: [f"struct<{ORDER}, value: {same}>"] for of, same in SAME.items()} for kind in ("first", "last")},
    **{
        kind: {of: ["int64", "double", "double"] for of in NUMBERS}
        for kind in ("variance", "stddev", "var_pop", "stddev_pop")
    },
    "quantile": {of: ["list<element: struct<x: int32, y: double>>"] for of in NUMBERS},
    "distinct": {of: ["binary"] for of in ARGUMENTS},
    "top": {of: [SKETCH, "int64"] for of in SAME},
    **{kind: {"boolean": ["bool"]} for kind in ("any", "every")},
}
WITHOUT_ARGUMENT = {"count": ["int64"], "ratio": [], "rate": []}


def test_each_kind_has_the_types_of_its_states_by_each_type_that_it_accepts() -> None:
    assert {*STATES, *WITHOUT_ARGUMENT} == {*KINDS}
    for kind, (of, argument) in product(STATES, ARGUMENTS.items()):
        aggregate = aggregate_of(Measure.parse(EXAMPLES[kind]))
        if of in STATES[kind]:
            assert aggregate.values(of)
            assert texts(aggregate.state_types(argument)) == STATES[kind][of], (kind, of)
        else:
            with pytest.raises(UnsuitableArgumentError):
                aggregate.values(of)


@pytest.mark.parametrize("kind", WITHOUT_ARGUMENT)
def test_a_measure_without_an_argument_has_its_types(kind: str) -> None:
    assert texts(aggregate_of(Measure.parse(EXAMPLES[kind])).state_types(pa.null())) == WITHOUT_ARGUMENT[kind]


def test_a_users_class_has_the_type_that_it_says_and_a_fold_that_of_its_events() -> None:
    counts = aggregate_of(user_measure("word_counts", "x")).state_types(pa.struct({"x": pa.string()}))
    assert texts(counts) == ["list<element: struct<word: string, n: int64>>", "int64"]
    # The arguments may have one name, and parts that are never null but for the keys of a map.
    one = pa.field("one", pa.int32(), nullable=False)
    nested = pa.map_(pa.field("key", pa.struct([one]), nullable=False), pa.field("value", pa.struct([one])))
    arguments = pa.struct([pa.field("x", pa.list_(pa.struct([one])), nullable=False), pa.field("x", nested)])
    kept = f"struct<{ORDER}, _0: list<element: struct<one: int32>>, _1: map<struct<one: int32 not null>, struct<one: int32>>>"
    trail = aggregate_of(keyed_fold("trail", "x, x")).state_types(arguments)
    assert texts(trail) == [f"list<element: {kept}>", "int64"]


def texts(types: list[pa.DataType]) -> list[str]:
    """The types in a table, where every part may be null."""
    return [str(nullable_type(of)) for of in types]
