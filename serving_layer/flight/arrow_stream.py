"""Arrow tables as messages of Flight."""

from typing import Any

import pyarrow as pa

from serving_layer.flight.messages import flight

_MESSAGE_BYTES = 65_536
"""The size of a message, as the pieces over HTTP have it: a slow client takes one within the time that it has for it.
Clients refuse messages of more than 4 or 16 MB.
"""


def schema_bytes(schema: pa.Schema) -> bytes:
    """The schema as FlightInfo and others have it."""
    return bytes(schema.serialize())


def data_of(rows: pa.Table) -> list[Any]:
    """The messages of a stream with the rows: the schema first."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=max(1, rows.num_rows * _MESSAGE_BYTES // max(1, rows.nbytes)))
    return [
        flight.FlightData(
            data_header=bytes(message.metadata), data_body=b"" if message.body is None else bytes(message.body)
        )
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]
