"""A call of a client: who it is, what its headers ask for, and whether it still waits."""

from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

import grpc.aio
from starlette.exceptions import HTTPException

from serving_layer.http.access import Client, Tokens, refuse_reader, token_in
from serving_layer.http.at_least import Asked, parse_asked

AS_OF = "as_of"
"""The session option with the snapshot of the answers: a token or a time."""
_HEADER, _COOKIE, _SESSION = "hourline-as-of", "hourline-as-of", "hourline-session"


class Call:
    """A call of an admin. Raises HTTPException if the caller is none."""

    def __init__(self, context: "grpc.aio.ServicerContext[Any, Any]", tokens: Tokens) -> None:
        self._headers = [(str(name), str(value)) for name, value in context.invocation_metadata() or ()]
        self._cookies = dict(_cookies(self._all("cookie")))
        self.token = token_in(self._first("authorization"))
        """The token that it brings. Empty: none."""
        self.client = Client(_address(context.peer()), "admin")
        if tokens:
            self.client = tokens.admitted(self._first("authorization"))
        refuse_reader(self.client)
        self.scope: MutableMapping[str, Any] = {"hourline.client": self.client}
        self.gone = False
        """Whether nobody waits for its answer any more."""

    async def is_disconnected(self) -> bool:
        """The same, as requests over HTTP say it."""
        return self.gone

    @property
    def as_of(self) -> str | None:
        """The snapshot that is asked for by a header, or else by the session. None: the newest one."""
        return self._first(_HEADER) or self.session_as_of

    @property
    def session_as_of(self) -> str | None:
        """The snapshot of the session."""
        return self._cookies.get(_COOKIE) or None

    @property
    def asked(self) -> Asked | None:
        """What the answer is to count. Raises UsageError."""
        return parse_asked(self._all("hourline-at-least"), self._all("prefer"), with_as_of=self.as_of is not None)

    @property
    def greeting(self) -> tuple[tuple[str, str], ...]:
        """The headers of the answer: a cookie for a client that has none yet."""
        return () if _SESSION in self._cookies else (("set-cookie", f"{_SESSION}=1"),)

    def session_with(self, as_of: str | None) -> tuple[tuple[str, str], ...]:
        """The headers that give the session this snapshot. Raises HTTPException if the client keeps no cookies."""
        if _SESSION not in self._cookies:
            raise HTTPException(
                400,
                "session options need a client that keeps cookies, and sends the one of its first answer (ADBC: "
                "adbc.flight.sql.rpc.with_cookie_middleware=true); or send the header Hourline-As-Of",
            )
        return (("set-cookie", f"{_COOKIE}={quote(as_of or '')}"),)

    def _all(self, name: str) -> list[str]:
        return [value for one, value in self._headers if one == name]

    def _first(self, name: str) -> str:
        return next(iter(self._all(name)), "")


def _cookies(headers: Iterable[str]) -> Iterable[tuple[str, str]]:
    for cookie in (one for header in headers for one in header.split(";")):
        name, _, value = cookie.strip().partition("=")
        yield name, unquote(value.strip('"'))


def _address(peer: str) -> str:
    """The address in the form ``ipv4:127.0.0.1:50123``."""
    return unquote(peer).partition(":")[2].rpartition(":")[0] or "nobody"
