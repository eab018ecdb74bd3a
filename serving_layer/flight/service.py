"""The calls of Flight, and what Flight SQL means by them. The server only reads: other calls are refused."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from hourline_core.errors import UsageError
from serving_layer.flight.answers import Answers
from serving_layer.flight.arrow_stream import data_of, schema_bytes
from serving_layer.flight.calls import AS_OF, Call
from serving_layer.flight.messages import MalformedError, flight, pack, parse, sql, unpack
from serving_layer.flight.tickets import Carried

READ_ONLY = "the server only reads: {} is not answered; send one SELECT over the views"
_CLOSED = 1
"""That a session is closed."""

ACTIONS = {
    "CreatePreparedStatement": "Prepares one SELECT.",
    "ClosePreparedStatement": "Forgets it.",
    "SetSessionOptions": f"Sets the option {AS_OF}, the snapshot of the answers: a token or a time.",
    "GetSessionOptions": "Returns the options of the session.",
    "CloseSession": "Ends the session.",
}
"""The actions, with what each does."""

Headers = tuple[tuple[str, str], ...]


class Service:
    """Answers calls. Each method gets the bytes of a call's message. Raises HourlineError, HTTPException,
    MalformedError.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def get_flight_info(self, call: Call, content: bytes) -> Any:
        """The columns of an answer, and the ticket to fetch it."""
        descriptor = parse(flight.FlightDescriptor, content)
        name, command = unpack(descriptor.cmd)
        info = flight.FlightInfo(flight_descriptor=descriptor, total_records=-1, total_bytes=-1, ordered=True)
        ticket = descriptor.cmd
        if (schema := Answers.schema_about(name, command)) is None:
            carried, answer = await self._answers.execute(call, _query_of(name, command))
            ticket = pack(sql.TicketStatementQuery(statement_handle=carried.to_bytes()))
            schema, info.app_metadata = answer.rows.schema, answer.token.encode()
            info.total_records, info.total_bytes = answer.rows.num_rows, answer.rows.nbytes
        info.schema = schema_bytes(schema)
        info.endpoint.append(flight.FlightEndpoint(ticket=flight.Ticket(ticket=ticket)))
        return info

    async def get_schema(self, call: Call, content: bytes) -> Any:
        """The columns of an answer."""
        name, command = unpack(parse(flight.FlightDescriptor, content).cmd)
        if (schema := Answers.schema_about(name, command)) is None:
            _, schema = await self._answers.prepare(call, _query_of(name, command).sql)
        return flight.SchemaResult(schema=schema_bytes(schema))

    async def do_get(self, call: Call, content: bytes) -> list[Any]:
        """The messages of an answer."""
        name, command = unpack(parse(flight.Ticket, content).ticket)
        if name == "TicketStatementQuery":
            rows = await self._answers.fetch(call, Carried.of(command.statement_handle))
            return await run_in_threadpool(data_of, rows)  # A large answer would keep others waiting.
        if Answers.schema_about(name, command) is None:
            raise MalformedError("the bytes are no ticket of this server")
        return data_of(await self._answers.about(call, name, command))

    async def do_action(self, call: Call, content: bytes) -> tuple[list[Any], Headers]:
        """The results of an action, and the headers of the answer."""
        action = parse(flight.Action, content)
        match action.type:
            case "CreatePreparedStatement":
                name, command = unpack(action.body)
                if name != "ActionCreatePreparedStatementRequest":
                    raise MalformedError(f"the action CreatePreparedStatement has no {name}")
                carried, schema = await self._answers.prepare(call, _plain(command))
                result = sql.ActionCreatePreparedStatementResult(
                    prepared_statement_handle=carried.to_bytes(), dataset_schema=schema_bytes(schema)
                )
                return [pack(result)], ()
            case "ClosePreparedStatement":
                return [], ()
            case "SetSessionOptions":
                headers = await self._set_options(call, parse(flight.SetSessionOptionsRequest, action.body))
                return [flight.SetSessionOptionsResult().SerializeToString()], headers
            case "GetSessionOptions":
                options = [(AS_OF, call.session_as_of)] if call.session_as_of else []
                told = [
                    flight.SessionOption(key=name, value=flight.SessionOptionValue(string_value=value))
                    for name, value in options
                ]
                return [flight.GetSessionOptionsResult(session_options=told).SerializeToString()], ()
            case "CloseSession":
                return [flight.CloseSessionResult(status=_CLOSED).SerializeToString()], call.session_with(None)
        raise HTTPException(501, READ_ONLY.format(f"the action '{action.type[:60]}'"))

    async def _set_options(self, call: Call, request: Any) -> Headers:
        headers: Headers = ()
        for option in request.session_options:
            if option.key != AS_OF:
                raise UsageError(f"there is no session option '{option.key[:60]}'; there is {AS_OF}")
            value = option.value
            if value.ListFields() and not value.HasField("string_value"):
                raise UsageError(f"the session option {AS_OF} is a text: a token or a time")
            headers = call.session_with(None)  # An option without a value, or an empty one, is erased.
            if value.string_value:
                headers = call.session_with(await self._answers.token_of(call, value.string_value))
        return headers


def _query_of(name: str, command: Any) -> Carried:
    """The query of a command."""
    match name:
        case "CommandStatementQuery":
            return Carried(_plain(command))
        case "CommandPreparedStatementQuery":
            return Carried.of(command.prepared_statement_handle)
    raise HTTPException(501, READ_ONLY.format(f"the command '{name[:60]}'"))


def _plain(command: Any) -> str:
    if command.transaction_id:
        raise HTTPException(501, READ_ONLY.format("a transaction"))
    query: str = command.query
    return query
