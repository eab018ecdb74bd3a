"""Schemas in which every part of a value may be null."""

import pyarrow as pa


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in which every column, and every part of one, may be null. Writers differ in what they take for NOT
    NULL, and a later null would fail.
    """
    return pa.schema([_nullable_field(column) for column in schema])


def _nullable_field(column: pa.Field) -> pa.Field:
    return pa.field(column.name, nullable_type(column.type), metadata=column.metadata)


def nullable_type(of: pa.DataType) -> pa.DataType:
    """The type in which every part may be null, but for the keys of a map."""
    if pa.types.is_struct(of):
        return pa.struct([_nullable_field(of.field(place)) for place in range(of.num_fields)])
    if pa.types.is_list(of):
        return pa.list_(_nullable_field(of.value_field).with_name("element"))  # as Delta and Spark call it
    if pa.types.is_map(of):
        return pa.map_(of.key_field, _nullable_field(of.item_field))  # A key is never null, but its parts may be.
    return of
