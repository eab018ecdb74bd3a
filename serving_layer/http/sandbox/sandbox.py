"""Runs free SQL. Each query has its own process that can only compute (process.py), on rows that this process reads
for it.
"""

import json
import signal
from collections.abc import Collection
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

import duckdb
import pyarrow as pa

from hourline_core.errors import SetupError, UsageError
from hourline_core.model import ServeSettings
from hourline_core.sql.literals import identifier
from hourline_core.sql.query_tree import fold_case
from hourline_core.sql.types import column_types
from serving_layer.http.error_responses import TimedOutError, TooLargeError, TooManyError
from serving_layer.http.sandbox.confinement import refuse_unsupported
from serving_layer.http.sandbox.process import Limits, from_ipc, to_ipc
from serving_layer.http.sandbox.worker import Worker, deadline

SQL_BYTES = 50_000
"""The maximum length of a query, in characters."""

_READ_ROWS = 100_000
_FRAME = 1 << 20
"""The number of bytes that a message may have beside the answer's own."""


_MEMORY = 256 << 20
"""Bytes for one query."""


def start_free_sql(settings: ServeSettings) -> "Sandbox":
    """Start the processes that run free SQL, within the limits of ``settings``. Raises SetupError if this machine
    cannot confine them.
    """
    return Sandbox(Limits(int(settings.timeout.total_seconds()) or 1, _MEMORY, settings.rows, settings.bytes))


class Sandbox:
    """Runs free SQL, ``workers`` queries at a time. Threads may share it."""

    def __init__(self, limits: Limits, workers: int = 2) -> None:
        """Try the confinement. Raises SetupError if queries cannot be confined."""
        refuse_unsupported()
        self.limits = limits
        self._workers = [Worker(limits) for _ in range(workers)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        try:
            # If the machine is busy, it takes too long. Each query tries the confinement again.
            with duckdb.connect() as empty, suppress(TimedOutError):
                self.answer("SELECT 1", empty, [])
        except BaseException:
            self.close()
            raise

    def answer(
        self, sql: str, database: duckdb.DuckDBPyConnection, views: Collection[str], gone: Event | None = None
    ) -> pa.Table:
        """The rows of one SELECT over ``views`` of ``database``, a cursor of the caller's own. ``gone`` is set when
        nobody wants them any more.

        Raises UsageError when the query is refused, with the part that is, or when the query ends its process. Raises
        duckdb.Error when it is wrong or fails, and TimedOutError when it takes too long. Raises TooLargeError when it
        needs too much memory, or reads or returns too much. Raises TooManyError when all workers are busy.
        """
        if len(sql) > SQL_BYTES:
            raise TooLargeError(f"the query has {len(sql):,} characters; allowed are {SQL_BYTES:,}")
        try:
            worker = self._idle.get_nowait()
        except Empty:
            raise TooManyError(
                f"{len(self._workers)} free queries run already, which is the maximum; try again when one of them has "
                "ended"
            ) from None
        try:
            return self._run(worker, sql, database, views, gone or Event())
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()

    def _run(
        self, worker: Worker, sql: str, database: duckdb.DuckDBPyConnection, views: Collection[str], gone: Event
    ) -> pa.Table:
        with worker.fork() as fork, deadline(self.limits.seconds, fork, database, gone) as passed:
            try:
                return self._converse(fork.connection, sql, database, views)
            except (EOFError, OSError, duckdb.InterruptException):
                status = fork.end()
                if passed or status in (-signal.SIGXCPU, -signal.SIGALRM):
                    raise TimedOutError(
                        f"the query was stopped after {self.limits.seconds} s; ask for fewer hours, or for less of them"
                    ) from None
                raise UsageError(
                    f"the query has ended its process ({_ending(status)}), as one does that needs far more memory "
                    f"than the {self.limits.memory >> 20:,} MB that are allowed, or is nested too deeply"
                ) from None

    def _converse(
        self, connection: Connection, sql: str, database: duckdb.DuckDBPyConnection, views: Collection[str]
    ) -> pa.Table:
        """Read what comes from the fork with the same care as a stranger's bytes, since a query may have written
        them.
        """
        with suppress(ConnectionError):  # The process has ended, and may have said why. What it said is read below.
            connection.send_bytes(json.dumps({"sql": sql, "views": sorted(views)}).encode())
        parts: list[pa.Table] = []
        rows, size = 0, 0
        while True:
            message = connection.recv_bytes(self.limits.bytes + _FRAME)
            match message[:1]:
                case b"W":
                    wanted = json.loads(message[1:])
                    read = [view for view in views if view in wanted["views"]]
                    with suppress(ConnectionError):
                        self._send(connection, database, read, wanted["columns"])
                case b"A":
                    try:
                        parts.append(from_ipc(message[1:]))
                        parts[-1].validate(full=True)
                    except pa.ArrowException as error:  # An integer of 39 digits, for example.
                        raise UsageError(f"the answer cannot be given as it is: {error}") from None
                    rows, size = rows + parts[-1].num_rows, size + len(message)
                    if rows > self.limits.rows or size > self.limits.bytes + _FRAME:
                        raise self._too_large()
                case _:
                    self._end(json.loads(message[1:]))
                    return pa.concat_tables(parts)

    def _send(
        self, connection: Connection, database: duckdb.DuckDBPyConnection, views: list[str], columns: list[str] | None
    ) -> None:
        """The rows of ``views`` with their ``columns`` (None: all)."""
        size = 0
        for view in sorted(views):
            types = column_types(database, identifier(view))
            # A query that counts rows alone names no column; a table has to have one.
            read = [name for name in types if columns is None or fold_case(name) in columns] or list(types)[:1]
            connection.send_bytes(json.dumps({name: types[name] for name in read}).encode())
            for batch in database.execute(
                f"SELECT {', '.join(map(identifier, read))} FROM {identifier(view)}"
            ).to_arrow_reader(_READ_ROWS):
                size += batch.nbytes
                if size > self.limits.memory // 2:
                    raise TooLargeError(
                        f"the query reads more than {self.limits.memory // 2 >> 20:,} MB of "
                        f"{' and '.join(sorted(views))}, which free SQL gets as a whole; name fewer columns, "
                        "or ask a metric by its parameters"
                    )
                connection.send_bytes(to_ipc(pa.Table.from_batches([batch])))
            connection.send_bytes(b"")

    def _end(self, end: dict[str, Any]) -> None:
        """Raise the error that the process has reported, if there is one."""
        if "unconfined" in end:
            raise SetupError(end["unconfined"])
        if "refused" in end:
            raise UsageError(end["refused"])
        if "memory" in end:
            raise TooLargeError(
                f"the query needs more than {self.limits.memory >> 20:,} MB of memory, which are allowed; "
                "ask for less at once"
            )
        if "too large" in end:
            raise self._too_large()
        if "error" in end:
            raise duckdb.Error(end["error"])

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the answer has more than {self.limits.rows:,} rows or {self.limits.bytes:,} bytes, which are allowed; "
            "add a LIMIT, or group"
        )


def _ending(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"
