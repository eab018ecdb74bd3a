"""A small server of OAuth 2.0: tokens for a client id and its secret (RFC 6749, 4.4), by HTTPS."""

import json
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.certificates import PemFiles

AUDIENCE = "kafka"
_HEADER = {"alg": "RS256", "kid": "1"}


@dataclass
class TokenServer:
    """Its clients, by id, with their secrets."""

    clients: Mapping[str, str]
    url: str = ""
    seconds: int = 3600
    """How long a token is valid."""

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def write_keys(self, file: Path) -> None:
        """The public key, as a broker takes it (JWKS)."""
        numbers = self._key.public_key().public_numbers()
        of_key = {"n": _base64(numbers.n.to_bytes(256)), "e": _base64(numbers.e.to_bytes(3))}
        file.write_text(json.dumps({"keys": [{**_HEADER, "kty": "RSA", "use": "sig", **of_key}]}), encoding="ascii")

    def answer(self, client: str, secret: str) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a client."""
        if self.clients.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": "unknown client, or wrong secret"}
        now = int(time.time())
        claims = {"sub": client, "iat": now, "exp": now + self.seconds, "aud": AUDIENCE, "scope": "kafka"}
        said = ".".join(_base64(json.dumps(part).encode()) for part in (_HEADER, claims))
        token = f"{said}.{_base64(self._key.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds, "scope": "kafka"}


def _base64(text: bytes) -> str:
    return urlsafe_b64encode(text).decode().rstrip("=")


@contextmanager
def serve_tokens(server: TokenServer, certificate: PemFiles) -> Iterator[TokenServer]:
    """Within the block, ``server`` answers at its ``url``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            kind, _, word = self.headers.get("Authorization", "").partition(" ")
            if kind == "Basic":
                client, _, secret = b64decode(word).decode().partition(":")
            else:
                client, secret = (body.get(name, [""])[0] for name in ("client_id", "client_secret"))
            status, value = server.answer(client, secret)
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # A client that has gone, or does not trust it.

    listening = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    server.url = f"https://127.0.0.1:{listening.server_address[1]}/token"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
