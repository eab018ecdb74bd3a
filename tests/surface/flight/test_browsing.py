"""What BI tools browse over Arrow Flight SQL: the server, its views and their columns."""

import sys
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest

import serving_layer
from serving_layer.flight.messages import flight, pack, sql
from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables
from tests.support.flight_clients import Bare, connected, described

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")


def names_of(server: Server, **filters: Any) -> list[str]:
    """The views that the driver finds."""
    with connected(server) as connection:
        catalogs = connection.adbc_get_objects(depth="tables", **filters).read_all().to_pylist()
    return [
        table["table_name"]
        for catalog in catalogs
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    ]


def asked(server: Server, command: Any) -> pa.Table:
    """The answer to a command, as whoever speaks the protocol gets it."""
    with Bare(server) as bare:
        info = flight.FlightInfo.FromString(bare.one("GetFlightInfo", described(pack(command))))
        schema = flight.SchemaResult.FromString(bare.one("GetSchema", described(pack(command)))).schema
        messages = [
            flight.FlightData.FromString(one)
            for one in bare.stream("DoGet", info.endpoint[0].ticket.SerializeToString())
        ]
    told = pa.ipc.read_schema(pa.py_buffer(info.schema))
    assert told == pa.ipc.read_schema(pa.py_buffer(schema))
    assert messages[0].data_header == bytes(pa.ipc.read_message(pa.py_buffer(told.serialize())).metadata)
    batches = [pa.ipc.read_record_batch(_message(one.data_header, one.data_body), told) for one in messages[1:]]
    return pa.Table.from_batches(batches, told)


def _message(head: bytes, body: bytes) -> pa.Message:
    return pa.ipc.read_message(b"\xff\xff\xff\xff" + len(head).to_bytes(4, "little") + head + body)


def test_the_server_says_what_it_is(server: Server) -> None:
    with connected(server) as connection:
        info = connection.adbc_get_info()
    assert (info["vendor_name"], info["vendor_arrow_version"]) == ("Hourline", pa.__version__)
    facts = {
        row["info_name"]: row["value"] for row in asked(server, sql.CommandGetSqlInfo(info=[3, 8, 504])).to_pylist()
    }
    assert facts == {3: True, 8: 0, 504: '"'}  # read-only, without transactions, and a name is quoted so


def test_no_fact_lacks_that_a_driver_of_jdbc_asks_for(server: Server) -> None:
    """It fails if a fact is null, or of another type."""
    facts = {row["info_name"]: row["value"] for row in asked(server, sql.CommandGetSqlInfo()).to_pylist()}
    assert set(facts) == {*range(6), *range(8, 11), 100, 101, *range(500, 577)}
    assert None not in facts.values()
    types = {number: type(value) for number, value in facts.items()}
    assert (types[513], types[563], types[557], types[564], types[508]) == (str, bool, int, int, list)


def test_all_views_are_listed_with_their_columns(tables: BareTables, server: Server) -> None:
    with serving_layer.connect(tables.project) as connection:
        views = {view: connection.sql(f"FROM {view} LIMIT 0").to_arrow_table().schema for view in connection.views}
    assert {"totals", "visits_states", "hours", "rejected_clicks"} <= views.keys()
    rows = asked(server, sql.CommandGetTables(include_schema=True)).to_pylist()
    found = {row["table_name"]: pa.ipc.read_schema(pa.py_buffer(row["table_schema"])) for row in rows}
    assert found == views
    assert {(row["catalog_name"], row["db_schema_name"], row["table_type"]) for row in rows} == {("", "", "VIEW")}
    with connected(server) as connection:
        assert connection.adbc_get_table_schema("visits") == views["visits"]
        assert connection.adbc_get_table_types() == ["VIEW"]
        assert read_columns(connection) == {view: schema.names for view, schema in views.items()}


def read_columns(connection: Any) -> dict[str, list[str]]:
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    (schema,) = catalog["catalog_db_schemas"]
    return {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for table in schema["db_schema_tables"]
    }


def test_views_are_found_by_patterns(server: Server) -> None:
    assert names_of(server, table_name_filter="TOTALS") == ["totals"]
    assert names_of(server, table_name_filter="total%") == [
        "totals",
        "totals_final",
        "totals_provisional",
        "totals_staged",
        "totals_states",
    ]
    assert names_of(server, table_name_filter="hour_") == ["hours"]
    assert names_of(server, table_name_filter=r"hour\_") == []
    assert names_of(server, table_name_filter="totals", table_types_filter=["TABLE"]) == []
    assert names_of(server, catalog_filter="other") == names_of(server, db_schema_filter="other") == []
    with pytest.raises(adbc.ProgrammingError, match="the pattern has 300 characters; allowed are 256"):
        names_of(server, table_name_filter="%" * 300)


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        (sql.CommandGetCatalogs(), [{"catalog_name": ""}]),
        (sql.CommandGetDbSchemas(), [{"catalog_name": "", "db_schema_name": ""}]),
        (sql.CommandGetDbSchemas(catalog="other"), []),
        (sql.CommandGetTableTypes(), [{"table_type": "VIEW"}]),
        (sql.CommandGetPrimaryKeys(), []),
        (sql.CommandGetExportedKeys(), []),
        (sql.CommandGetImportedKeys(), []),
        (sql.CommandGetCrossReference(), []),
    ],
    ids=lambda value: value.DESCRIPTOR.name if hasattr(value, "DESCRIPTOR") else "",
)
def test_there_is_one_schema_without_a_name_and_there_are_no_keys(
    server: Server, command: Any, rows: list[dict[str, str]]
) -> None:
    assert asked(server, command).to_pylist() == rows


def test_the_actions_are_listed(server: Server) -> None:
    with Bare(server) as bare:
        listed = [flight.ActionType.FromString(one).type for one in bare.stream("ListActions", b"")]
    assert {"CreatePreparedStatement", "SetSessionOptions"} <= set(listed)
