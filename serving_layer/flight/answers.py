"""Answers to queries and to questions about the views. They are computed as those over HTTP are: by the same turns, in
the same sandbox, within the same limits.
"""

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any, TypeVar

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from serving_layer.connection import Connection
from serving_layer.flight.calls import Call
from serving_layer.flight.catalog import browse, catalog_schema
from serving_layer.flight.server_info import SERVER_INFO_SCHEMA, server_info
from serving_layer.flight.tickets import Answer, Carried, KeptAnswers
from serving_layer.http.answering import Answering
from serving_layer.http.at_least import Waits
from serving_layer.http.error_responses import TooLargeError
from serving_layer.http.free_sql import FreeSql, rows_of, sources_of
from serving_layer.http.limits import BODY_BYTES

_T = TypeVar("_T")

_SQL_INFO = "CommandGetSqlInfo"


class Answers:
    """Computes the answers of one server. For one event loop."""

    def __init__(self, answering: Answering, waits: Waits, free_sql: FreeSql) -> None:
        self._answering = answering
        self._waits = waits
        self._free_sql = free_sql
        self._kept = KeptAnswers(answering.settings.bytes * answering.settings.concurrent)

    async def prepare(self, call: Call, sql: str) -> tuple[Carried, pa.Schema]:
        """What the client carries for a prepared query, and the columns. Raises HourlineError."""
        answer = await self._answer(call, sql, call.as_of)
        return Carried(sql, kept=self._keep(call, answer)), answer.rows.schema

    async def execute(self, call: Call, carried: Carried) -> tuple[Carried, Answer]:
        """What the client carries to fetch the answer of a query, and the answer itself. It is of the snapshot of the
        call, or of the newest one. Raises HourlineError.
        """
        answer = self._kept.take(call.client.name, carried.kept)
        if answer is None or call.asked is not None or answer.token != (call.as_of or self._answering.snapshots.token):
            answer = await self._answer(call, carried.sql, call.as_of)
        return Carried(carried.sql, answer.token, self._keep(call, answer)), answer

    async def fetch(self, call: Call, carried: Carried) -> pa.Table:
        """The rows of an answer, computed again if it is not kept here any more. Raises HourlineError."""
        answer = self._kept.take(call.client.name, carried.kept)
        return (answer or await self._answer(call, carried.sql, carried.as_of)).rows

    @staticmethod
    def schema_about(name: str, command: Any) -> pa.Schema | None:
        """The columns of the answer to a question about the server or its views. None: it is no such question."""
        return SERVER_INFO_SCHEMA if name == _SQL_INFO else catalog_schema(name, command)

    async def about(self, call: Call, name: str, command: Any) -> pa.Table:
        """The answer to such a question. Raises HourlineError."""
        if name == _SQL_INFO:
            return server_info(command.info)
        return await self._compute(call, lambda connection: browse(name, command, connection), call.as_of)

    async def token_of(self, call: Call, as_of: str) -> str:
        """The token of a snapshot. Raises HourlineError if there is no such one, or no longer."""
        return await self._compute(call, lambda connection: connection.token, as_of)

    def _keep(self, call: Call, answer: Answer) -> str:
        # Without a later call, nothing else would forget it.
        asyncio.get_running_loop().call_later(KeptAnswers.SECONDS + 1, self._kept.forget)
        return self._kept.keep(call.client.name, answer)

    async def _answer(self, call: Call, sql: str, as_of: str | None) -> Answer:
        if (size := len(sql.encode(errors="replace"))) > BODY_BYTES:
            raise TooLargeError(f"the query has {size:,} bytes; allowed are {BODY_BYTES:,}")
        if asked := call.asked:
            sources = await run_in_threadpool(sources_of, self._answering.snapshots, sql)
            await self._waits.wait(call, self._answering, asked, sources)
        gone = Event()

        def work(connection: Connection) -> Answer:
            rows, token = rows_of(self._free_sql, connection, sql, gone), connection.token
            return Answer(token, rows.replace_schema_metadata({"token": token}))

        return await self._compute(call, work, as_of, gone.set)

    async def _compute(
        self,
        call: Call,
        work: Callable[[Connection], _T],
        as_of: str | None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> _T:
        if self._answering.listeners.closed:
            raise HTTPException(503, "the server is being stopped")
        return await self._answering.compute(call, work, as_of, on_stop)
