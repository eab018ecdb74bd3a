"""The views as BI tools browse them, in one catalog and one schema, both without a name: a query names views alone."""

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from hourline_core.sql.literals import identifier
from serving_layer.connection import Connection
from serving_layer.flight.arrow_stream import schema_bytes
from serving_layer.flight.patterns import matcher

_TABLE_TYPE = "VIEW"


def _texts(*names: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema([*((name, pa.string()) for name in names), *others.items()])


_KEY = ("catalog_name", "db_schema_name", "table_name", "column_name")
_RULES = {"key_sequence": pa.int32(), "fk_key_name": pa.string(), "pk_key_name": pa.string()}
_KEYS = _texts(
    *(f"{side}_{name}" for side in ("pk", "fk") for name in _KEY),
    **_RULES,
    update_rule=pa.uint8(),
    delete_rule=pa.uint8(),
)
_SCHEMAS = {
    "CommandGetCatalogs": pa.schema([pa.field("catalog_name", pa.string(), nullable=False)]),
    "CommandGetDbSchemas": pa.schema(
        [pa.field("catalog_name", pa.string()), pa.field("db_schema_name", pa.string(), nullable=False)]
    ),
    "CommandGetTableTypes": pa.schema([pa.field("table_type", pa.string(), nullable=False)]),
    "CommandGetTables": pa.schema(
        [
            pa.field("catalog_name", pa.string()),
            pa.field("db_schema_name", pa.string()),
            pa.field("table_name", pa.string(), nullable=False),
            pa.field("table_type", pa.string(), nullable=False),
        ]
    ),
    "CommandGetPrimaryKeys": _texts(*_KEY, "key_name", key_sequence=pa.int32()),
    **dict.fromkeys(("CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference"), _KEYS),
}
_WITH_COLUMNS = pa.field("table_schema", pa.binary(), nullable=False)


def catalog_schema(name: str, command: Any) -> pa.Schema | None:
    """The columns of the answer to a command. None: it is not about the catalog."""
    schema = _SCHEMAS.get(name)
    return schema.append(_WITH_COLUMNS) if schema and name == "CommandGetTables" and command.include_schema else schema


def browse(name: str, command: Any, connection: Connection) -> pa.Table:
    """The answer to a command. There are no keys. Raises TableError, UsageError."""
    rows: list[dict[str, Any]] = []
    match name:
        case "CommandGetCatalogs":
            rows = [{"catalog_name": ""}]
        case "CommandGetDbSchemas" if _in_schema(command):
            rows = [{"catalog_name": "", "db_schema_name": ""}]
        case "CommandGetTableTypes":
            rows = [{"table_type": _TABLE_TYPE}]
        case "CommandGetTables" if _in_schema(command):
            rows = _views(command, connection)
    return pa.Table.from_pylist(rows, catalog_schema(name, command))


def _in_schema(command: Any) -> bool:
    return not command.catalog and bool(_like(command, "db_schema_filter_pattern", [""]))


def _views(command: Any, connection: Connection) -> list[dict[str, Any]]:
    if _TABLE_TYPE not in (command.table_types or [_TABLE_TYPE]):
        return []
    return [
        {"catalog_name": "", "db_schema_name": "", "table_name": view, "table_type": _TABLE_TYPE}
        | ({"table_schema": _columns(connection, view)} if command.include_schema else {})
        for view in _like(command, "table_name_filter_pattern", connection.views)
    ]


def _like(command: Any, name: str, texts: Collection[str]) -> list[str]:
    """Those of ``texts`` that are like the pattern of SQL in a field, if it is there."""
    return list(filter(matcher(getattr(command, name)), texts) if command.HasField(name) else texts)


def _columns(connection: Connection, view: str) -> bytes:
    query = f"SELECT * FROM {identifier(view)} LIMIT 0"
    with connection.explaining(query):
        return schema_bytes(connection.database.sql(query).to_arrow_table().schema)
