"""The process that runs free SQL: `python -m serving_layer.http.sandbox.process LIMITS`, started by worker.py alone.

For each query it forks, so that none meets what another has left; the fork gives up everything but computing
(confinement.py) before it reads the query. Then query and answer go over one socket:

1. it gets the query, and the names of all views; it checks the query, and says after ``W`` which views and columns it
reads;
2. it gets their rows, which the server has read for it: this process has neither the tables nor the extension that
reads them;
3. it sends the answer in parts, each an Arrow IPC stream after ``A``, and at the end a JSON object after ``J``.
"""

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.errors import SetupError
from hourline_core.sql.literals import identifier
from hourline_core.sql.sketches import install_sketch_functions
from serving_layer.http.sandbox import sql_check
from serving_layer.http.sandbox.confinement import confine, die_with_parent, leave_network

PART_ROWS = 10_000


@dataclass(frozen=True)
class Limits:
    """Of one query."""

    seconds: int
    memory: int
    """Bytes for DuckDB."""
    rows: int
    """Of the answer."""
    bytes: int
    """Of the answer."""


_BESIDE = 384 << 20
"""Bytes of memory beside DuckDB's own, for functions that DuckDB does not count, rows on their way in and out, and
the stacks of threads.
"""


_INEXACT = ("UHUGEINT", "BIT", "TIME WITH TIME ZONE", "TIMETZ", "TIMESTAMP_NS")
"""Types, also nested ones, that Arrow lacks, or that lose something when converted to text."""


def main() -> int:
    """Fork for each file descriptor that comes over standard input, until that ends."""
    limits = Limits(**json.loads(sys.argv[1]))
    leave_network()
    server = socket.socket(fileno=0)
    database = _database(limits)
    server.send(b"ready")
    while True:
        _, sockets, _, _ = socket.recv_fds(server, 16, 1)
        if not sockets:
            return 0
        child = os.fork()
        if child == 0:
            _run(sockets[0], database, limits)
        os.close(sockets[0])
        handle = os.pidfd_open(child)
        socket.send_fds(server, [b"started"], [handle])
        os.close(handle)
        server.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _database(limits: Limits) -> duckdb.DuckDBPyConnection:
    """An empty, locked database. Its imports and first uses happen before a fork, since a fork cannot read files."""
    database = duckdb.connect(
        config={
            "threads": 1,
            "memory_limit": f"{limits.memory}B",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        }
    )
    install_sketch_functions(database)
    for setting in ("TimeZone = 'UTC'", "temp_directory = ''", "enable_external_access = false"):
        database.execute(f"SET {setting}")
    columns = {"sketch": pa.nulls(1, pa.binary()), "moment": pa.array([0], pa.timestamp("us", "UTC"))}
    histogram = pa.list_(pa.struct({"x": pa.int32(), "y": pa.float64()}))
    sketch = pa.table({**columns, "histogram": pa.array([[{"x": 1, "y": 1.0}]], histogram)})
    database.register("_part", sketch)
    database.execute(
        "SELECT json_serialize_sql('FROM x'), strftime(moment, '%x'), distinct_count(sketch), "
        "quantile_value(histogram, 0.5) FROM _part GROUP BY ALL"
    ).to_arrow_table()
    database.unregister("_part")
    database.execute("SET lock_configuration = true")
    return database


def _run(descriptor: int, database: duckdb.DuckDBPyConnection, limits: Limits) -> None:
    """Run one query in the fork. It does not return."""
    try:
        die_with_parent()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 2)
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, 1024)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.alarm(limits.seconds + 2)  # If the server, which would stop it, has died.
        connection = Connection(descriptor)
        try:
            # All forks begin with the state of random numbers that they were made with.
            database.execute("SELECT setseed(?)", [int.from_bytes(os.urandom(6)) / (1 << 47) - 1])
            confine(limits.memory + _BESIDE, limits.seconds + 1)
            end = _answer(connection, database, limits)
        except SetupError as error:
            end = {"unconfined": str(error)}
        except sql_check.RefusedError as error:
            end = {"refused": str(error)}
        except (MemoryError, duckdb.OutOfMemoryException):
            end = {"memory": True}
        except duckdb.Error as error:
            end = {"error": str(error)}
        connection.send_bytes(b"J" + json.dumps(end).encode())
    finally:
        os._exit(0)


def _answer(connection: Connection, database: duckdb.DuckDBPyConnection, limits: Limits) -> dict[str, object]:
    query = json.loads(connection.recv_bytes())
    reads = sql_check.check(database, query["sql"], query["views"])
    columns = None if reads.columns is None else sorted(reads.columns)
    connection.send_bytes(b"W" + json.dumps({"views": sorted(reads.views), "columns": columns}).encode())
    for view in sorted(reads.views):
        _take(connection, database, view)
    rows, size = 0, 0
    answer = database.sql(query["sql"])
    for name, kind in zip(answer.columns, answer.types, strict=True):
        if inexact := [word for word in _INEXACT if word in str(kind)]:
            raise sql_check.RefusedError(
                f"column '{name}' of the answer is a {inexact[0]}, which cannot be given as it is; cast it to VARCHAR"
            )
    reader = answer.to_arrow_reader(PART_ROWS)
    part = pa.Table.from_batches([], reader.schema)  # So an answer without rows has its columns, too.
    while True:
        _refuse_wrapped(part)
        message = to_ipc(part)
        rows, size = rows + part.num_rows, size + len(message)
        if rows > limits.rows or size > limits.bytes:
            return {"too large": True}
        connection.send_bytes(b"A" + message)
        try:
            part = pa.Table.from_batches([reader.read_next_batch()])
        except StopIteration:
            return {"done": True}


def _refuse_wrapped(part: pa.Table) -> None:
    """Raise RefusedError for a HUGEINT of 39 digits, which DuckDB gives as a decimal of 38."""
    for name, column in zip(part.column_names, part.columns, strict=True):
        if pa.types.is_decimal(column.type) and (least := pc.min(column).as_py()) is not None and least <= -(10**38):
            raise sql_check.RefusedError(
                f"column '{name}' of the answer has a HUGEINT of 39 digits, which cannot be given as it is; cast it to "
                "VARCHAR"
            )


def _take(connection: Connection, database: duckdb.DuckDBPyConnection, view: str) -> None:
    """The rows of ``view`` as a table."""
    columns = json.loads(connection.recv_bytes())
    database.execute(
        f"CREATE TABLE {identifier(view)} ({', '.join(f'{identifier(name)} {kind}' for name, kind in columns.items())})"
    )
    while message := connection.recv_bytes():
        database.register("_part", from_ipc(message))
        database.execute(f"INSERT INTO {identifier(view)} FROM _part")
        database.unregister("_part")


def to_ipc(table: pa.Table) -> bytes:
    """The rows as an Arrow stream of their own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_ipc(message: bytes) -> pa.Table:
    """The table of a stream. Raises Arrow's errors if it is no such stream."""
    return pa.ipc.open_stream(message).read_all()


if __name__ == "__main__":
    sys.exit(main())
