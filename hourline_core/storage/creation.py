"""Creates a Delta table from its declaration, and adds columns that it lacks."""

from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from hourline_core.errors import TableError
from hourline_core.runtime import failpoints
from hourline_core.storage.commit_log import WIDENED
from hourline_core.storage.commits import LOG_KEPT, commit_properties, durable_step
from hourline_core.storage.data_files import place_of
from hourline_core.storage.durable import sync_creation
from hourline_core.storage.nullable_schema import nullable_type
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.table_format import FORMAT, PLACE


def open_or_create(
    uri: str,
    storage_options: Mapping[str, str],
    kind: str,
    schema: pa.Schema,
    configuration: Mapping[str, str],
    description: str,
) -> DeltaTable:
    """The table at ``uri``, created empty if it is missing.

    It has ``schema``, ``configuration`` (STREAMED or PUBLISHED, and Hourline's own properties), its ``kind`` (events,
    final…) as its name, and ``description``; catalogues show both. Columns that the table lacks are added, and are null
    in older rows. Columns of other types, or whose names differ in case, are replaced while the table is empty. Raises
    TableError when a column differs so and the table has rows.
    """
    if not exists(uri, storage_options):
        failpoints.visit(f"before create {kind}")
        try:
            DeltaTable.create(
                uri,
                schema,
                name=kind,
                description=description,
                configuration={**configuration, **FORMAT, PLACE: place_of(uri, kind)},
                commit_properties=commit_properties({}),
                storage_options=dict(storage_options),
                raise_if_key_not_exists=False,  # Hourline's own properties
            )
        except DeltaError:
            # Another process may have created it meanwhile. Then it is opened as it is.
            if not exists(uri, storage_options):
                raise
        sync_creation(open_table(uri, storage_options))
        failpoints.visit(f"after create {kind}")
    table = open_table(uri, storage_options)
    # A table cannot have two columns whose names differ only in case.
    there = {column.name.casefold(): column for column in pa.schema(table.schema().to_arrow())}
    for column in schema:
        known = there.get(column.name.casefold(), column)
        # An older version made tables with parts that are never null.
        if (known.name, nullable_type(known.type)) != (column.name, nullable_type(column.type)):
            if not table.file_uris():
                _replace_columns(table, schema)
                return table
            raise _differs(uri, known, column)
    add_columns(table, schema)
    return table


def _differs(uri: str, known: pa.Field, declared: pa.Field) -> TableError:
    another = f"give the field another name, as in `a_name: {{type: …, key: {declared.name}}}`"
    if known.name != declared.name:
        return TableError(
            f"the table at {uri} has a column '{known.name}' ({known.type}), and the field '{declared.name}' is "
            f"declared now; two names may not differ only in case; keep the old name, as in "
            f"`{known.name}: {{type: …, key: {declared.name}}}`, or {another}"
        )
    return TableError(
        f"column '{known.name}' of the table at {uri} is {known.type}, and now declared as {declared.type}; "
        f"keep its type, or {another}"
    )


def _replace_columns(table: DeltaTable, schema: pa.Schema) -> None:
    """Give ``table``, which is empty, the columns of ``schema``. Raises ConflictError when another process has written
    to it: it may not be empty any more.
    """
    with durable_step("widen", table):
        write_deltalake(
            table,
            schema.empty_table(),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=commit_properties({WIDENED: "columns"}),
            post_commithook_properties=LOG_KEPT,
        )


def add_columns(table: DeltaTable, schema: pa.Schema) -> None:
    """Add the columns of ``schema`` that the table lacks, since an older version of Hourline made it. They are null in
    its rows. Raises ConflictError when another process writes there.
    """
    there = {column.name for column in pa.schema(table.schema().to_arrow())}
    if any(column.name not in there for column in schema):
        with durable_step("widen", table):
            write_deltalake(
                table,
                schema.empty_table(),
                mode="append",
                schema_mode="merge",
                commit_properties=commit_properties({WIDENED: "columns"}),
                post_commithook_properties=LOG_KEPT,
            )
