"""Access control: tokens and their scopes. Without tokens, only this machine is served, and no page of another site."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from hourline_core.errors import SetupError, did_you_mean
from hourline_core.model import Project
from hourline_core.model.home_folder import expand_home
from hourline_core.model.serving import LOOPBACK
from serving_layer.http.error_responses import log, problem

Right = Literal["reader", "admin"]
"""The scope of a token. A reader sees results and reports. An admin also sees the bytes of rejected records, and may
send free SQL.
"""

RIGHTS: tuple[Right, ...] = ("reader", "admin")
SHORTEST = 16
"""The minimum number of characters of a token. `openssl rand -hex 32` makes a good one."""

OPEN_PATHS = ("/health",)
"""The paths that need no token. They say only that the server is there."""

_CHALLENGE = [
    (b"www-authenticate", b'Bearer realm="hourline"'),
    (b"www-authenticate", b'Basic realm="hourline: any name, a token as password"'),
]


@dataclass(frozen=True)
class Client:
    """The sender of a request."""

    name: str
    """The key by which turns are shared: the beginning of its token's hash, or its address."""
    right: Right


class Tokens:
    """The accepted tokens, as hashes. The tokens themselves are not kept, so no log can show them."""

    def __init__(self, tokens: Mapping[str, Right]) -> None:
        self._known = [(_hash(token), right) for token, right in tokens.items()]

    @classmethod
    def of(cls, project: Project, environ: Mapping[str, str] = os.environ) -> "Tokens":
        """The tokens of ``serve.tokens`` and of the environment. Raises SetupError, which never shows a token."""
        found: dict[str, Right] = {}
        if project.settings.serve.tokens:
            file = project.root.absolute() / expand_home(project.settings.serve.tokens)
            found |= _in_file(file)
        for right in RIGHTS:
            name = f"HOURLINE_{right.upper()}_TOKEN"
            if token := environ.get(name, "").strip():
                found[_long_enough(token, name)] = right
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self._known)

    def client(self, token: str) -> Client | None:
        """The holder of ``token``, or None. It takes the same time for every token."""
        got, holder = _hash(token), None
        for known, right in self._known:
            if hmac.compare_digest(known, got):
                holder = Client(known.hex()[:8], right)
        return holder

    def admitted(self, authorization: str) -> Client:
        """The holder of the token in a header. Raises HTTPException if there is none."""
        client = self.client(token_in(authorization))
        if client is None:
            what = "has a token that is not accepted" if authorization else "has no token"
            raise HTTPException(
                401,
                f"the request {what}; send one as `Authorization: Bearer TOKEN`, or as the password of Basic "
                "authentication",
            )
        return client


class Guard:
    """ASGI middleware before everything else, so that no route can be forgotten."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if refusal := self._from_elsewhere(scope, headers):
            await problem(403, refusal)(scope, receive, send)
            return
        client = Client((scope.get("client") or ["nobody"])[0], "admin")
        if self.tokens and scope["path"] not in OPEN_PATHS:
            try:
                client = self.tokens.admitted(headers.get("authorization", ""))
            except HTTPException as refused:
                answer = problem(refused.status_code, str(refused.detail))
                answer.raw_headers.extend(_CHALLENGE)
                await answer(scope, receive, send)
                return
        scope["hourline.client"] = client
        await self.app(scope, receive, send)

    def _from_elsewhere(self, scope: Scope, headers: Headers) -> str | None:
        """Why a request is refused that a page of another site made a browser send. Such a page may also point its
        name to this machine.
        """
        host = headers.get("host", "")
        if not self.tokens and not is_loopback(_name(host)):
            return f"without tokens, this server answers at {' and '.join(LOOPBACK)} only; got the host '{host}'"
        # A link on another site may be followed: that site does not see the answer.
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            return "requests from pages of other sites are not answered"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return f"requests from pages of other sites are not answered; got the origin '{origin}'"
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens at an address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK


class Asker(Protocol):
    """Who asks: a request over HTTP, or a call of Flight."""

    scope: MutableMapping[str, Any]
    """It has the client."""

    async def is_disconnected(self) -> bool:
        """Whether nobody waits for the answer any more."""


def client_of(asker: Asker) -> Client:
    """The sender of the request."""
    client: Client = asker.scope["hourline.client"]
    return client


def admin_only(request: Request) -> None:
    """The dependency of routes that refuse readers."""
    refuse_reader(client_of(request))


def refuse_reader(client: Client) -> None:
    """Raise HTTPException if the client is no admin."""
    if client.right != "admin":
        raise HTTPException(403, "that needs a token of an admin; yours is a reader's")


def token_in(authorization: str) -> str:
    """The token in a header, or an empty text."""
    kind, _, given = authorization.partition(" ")
    if kind.casefold() == "bearer":
        return given.strip()
    if kind.casefold() == "basic":
        text = given.strip().rstrip("=")
        try:  # ADBC's driver leaves the padding out.
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def warn_of_readable_tokens(project: Project) -> None:
    """Log a warning if other users of this machine can read the file of tokens."""
    if project.settings.serve.tokens:
        file = project.root.absolute() / expand_home(project.settings.serve.tokens)
        if file.exists() and file.stat().st_mode & 0o077:
            log.warning("other users of this machine can read or change the tokens in %s; `chmod 600 %s`", file, file)


def _in_file(file: Path) -> dict[str, Right]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"the tokens in {file} (serve.tokens in hourline.yaml) cannot be read: {error}") from None
    found: dict[str, Right] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        right: Right | None = "reader" if words[0] == "reader" else "admin" if words[0] == "admin" else None
        if right is None or len(words) != 2:
            hint = did_you_mean(words[0], RIGHTS) if right is None and len(words[0]) < SHORTEST else ""
            raise SetupError(f"{file}:{number}: allowed in a line is `reader TOKEN` or `admin TOKEN`{hint}")
        token = _long_enough(words[1], f"{file}:{number}")
        if found.setdefault(token, right) != right:
            raise SetupError(
                f"{file}:{number}: this token is already listed for {found[token]}; allowed is each token once"
            )
    if not found:
        raise SetupError(
            f"{file} (serve.tokens in hourline.yaml) holds no token; put a line `reader TOKEN` or `admin TOKEN` into it"
        )
    return found


def _long_enough(token: str, place: str) -> str:
    if not token.isascii():
        raise SetupError(
            f"{place}: the token has letters that a header cannot carry; allowed are those of ASCII, as `openssl rand "
            "-hex 32` makes them"
        )
    if len(token) < SHORTEST:
        raise SetupError(
            f"{place}: the token has {len(token)} characters, allowed are {SHORTEST} or more; `openssl rand -hex 32` "
            "makes a good one"
        )
    return token
