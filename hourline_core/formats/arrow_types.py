"""The Arrow type of each declared type."""

import pyarrow as pa

from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType, TypeTree

MOMENT = pa.timestamp("us", tz="UTC")

_SCALARS = {
    "string": pa.string(),
    "json": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": MOMENT,
    "date": pa.date32(),
}


def arrow_type(tree: TypeTree) -> pa.DataType:
    """The Arrow type that holds values of ``tree``. Everything in it may be null, except the names of a map."""
    match tree:
        case ScalarType(kind):
            return _SCALARS[kind]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(arrow_type(element))
        case MapType(value):
            return pa.map_(pa.string(), arrow_type(value))
        case StructType(members):
            return pa.struct([(name, arrow_type(kind)) for name, kind in members])
