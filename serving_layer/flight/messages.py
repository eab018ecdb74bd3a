"""The messages of Arrow Flight and Flight SQL that the server speaks, with their numbers on the wire.

They are written as proto2, in which each field is known to be there or not. A oneof is fields of which one is there, a
map is a list of entries, and an enum is an int32: the bytes are the same.
"""

from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError

_PACKAGE = "arrow.flight.protocol"
_FLIGHT = """
    HandshakeResponse        uint64 protocol_version 1, bytes payload 2
    ActionType               string type 1, string description 2
    Action                   string type 1, bytes body 2
    Result                   bytes body 1
    SchemaResult             bytes schema 1
    FlightDescriptor         int32 type 1, bytes cmd 2
    FlightInfo               bytes schema 1, FlightDescriptor flight_descriptor 2, FlightEndpoint* endpoint 3
                             int64 total_records 4, int64 total_bytes 5, bool ordered 6, bytes app_metadata 7
    FlightEndpoint           Ticket ticket 1
    Ticket                   bytes ticket 1
    FlightData               FlightDescriptor flight_descriptor 1, bytes data_header 2, bytes data_body 1000
    StringListValue          string* values 1
    SessionOptionValue       string string_value 1, bool bool_value 2, sfixed64 int64_value 3, double double_value 4
                             StringListValue string_list_value 5
    SessionOption            string key 1, SessionOptionValue value 2
    SetSessionOptionsRequest SessionOption* session_options 1
    SetSessionOptionsResult
    GetSessionOptionsResult  SessionOption* session_options 1
    CloseSessionResult       int32 status 1
"""
_SQL = """
    CommandGetSqlInfo                   uint32* info 1
    CommandGetCatalogs
    CommandGetDbSchemas                 string catalog 1, string db_schema_filter_pattern 2
    CommandGetTables                    string catalog 1, string db_schema_filter_pattern 2
                                        string table_name_filter_pattern 3, string* table_types 4
                                        bool include_schema 5
    CommandGetTableTypes
    CommandGetPrimaryKeys
    CommandGetExportedKeys
    CommandGetImportedKeys
    CommandGetCrossReference
    CommandStatementQuery               string query 1, bytes transaction_id 2
    TicketStatementQuery                bytes statement_handle 1
    CommandPreparedStatementQuery       bytes prepared_statement_handle 1
    ActionCreatePreparedStatementRequest string query 1, bytes transaction_id 2
    ActionCreatePreparedStatementResult bytes prepared_statement_handle 1, bytes dataset_schema 2
                                        bytes parameter_schema 3
    ActionClosePreparedStatementRequest bytes prepared_statement_handle 1
"""

_Field = descriptor_pb2.FieldDescriptorProto
_PREFIX = f"{_PACKAGE}.sql."


def _classes(package: str, declared: str) -> SimpleNamespace:
    """The classes of the messages that ``declared`` lists."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for line in filter(None, declared.splitlines()):
        # A name begins in the fourth column. A line that begins further right goes on with the fields.
        name, _, fields = line[4:].partition(" ")
        if name:
            file.message_type.add(name=name)
        for number, field in ((int(one.split()[-1]), one.split()) for one in fields.split(",") if one.strip()):
            kind = field[0].rstrip("*")
            added = file.message_type[-1].field.add(name=field[1], number=number)
            added.label = _Field.LABEL_REPEATED if field[0].endswith("*") else _Field.LABEL_OPTIONAL
            if kind.islower():
                added.type = getattr(_Field, f"TYPE_{kind.upper()}")
            else:
                added.type_name = f".{package}.{kind}"
                added.type = _Field.TYPE_MESSAGE
    pool = descriptor_pool.DescriptorPool()  # Another library of this process may have its own of these names.
    pool.Add(file)
    found = {one.name: pool.FindMessageTypeByName(f"{package}.{one.name}") for one in file.message_type}
    return SimpleNamespace(**{name: message_factory.GetMessageClass(kind) for name, kind in found.items()})


flight = _classes(_PACKAGE, _FLIGHT)
"""The messages of Flight."""
sql = _classes(_PREFIX.rstrip("."), _SQL)
"""The messages of Flight SQL."""


class MalformedError(Exception):
    """Bytes that are no such message."""


def parse(kind: Any, content: bytes) -> Any:
    """The message of a class of ``flight``. Raises MalformedError."""
    try:
        found = kind.FromString(content)
        str(found)  # Texts are decoded when they are first read.
    except (DecodeError, UnicodeDecodeError, ValueError):
        raise MalformedError(f"the bytes are no {kind.DESCRIPTOR.name}") from None
    return found


def pack(message: Any) -> bytes:
    """The bytes of a message of ``sql``, with its name."""
    content = message.SerializeToString()
    packed: bytes = Packed(
        type_url=f"type.googleapis.com/{message.DESCRIPTOR.full_name}", value=content
    ).SerializeToString()
    return packed


def unpack(content: bytes) -> tuple[str, Any]:
    """The name of a message of ``sql`` and the message itself. None: it is one that the server does not know. Raises
    MalformedError.
    """
    packed = parse(Packed, content)
    full_name = packed.type_url.rpartition("/")[2]
    name = full_name.removeprefix(_PREFIX)
    if name == full_name:
        raise MalformedError("the bytes name no message of Flight SQL")
    kind = vars(sql).get(name)
    return name, None if kind is None else parse(kind, packed.value)
