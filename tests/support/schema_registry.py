"""A schema registry on this machine, with Confluent's HTTP interface as far as clients of schemas need it.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html. It takes every schema as it is, unless
it ``is_backward``. A schema of Protobuf is told as it was registered, or as a descriptor if that is asked for.
"""

import base64
import json
import re
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from hourline_core.model.protobuf_schema import compile_protobuf
from tests.support.registry_rules import find_conflict

Answer = tuple[int, Any]


class _NotFoundError(Exception):
    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class _ConflictError(Exception):
    """A schema is not compatible."""


@dataclass
class _Schemas:
    """What a registry holds. The same schema has the same id, in whatever subjects it is."""

    by_id: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, dict[int, int]] = field(default_factory=dict)
    """By subject and version, the id."""
    deleted: set[tuple[str, int]] = field(default_factory=set)
    """Subjects with versions that are told only to those who ask for deleted ones, too."""
    normalizes: bool = False

    def register(self, subject: str, declared: Mapping[str, Any]) -> int:
        schema = _content(declared)
        schema_id = self._find(schema)
        if schema_id is None:
            schema_id = len(self.by_id) + 1
            self.by_id[schema_id] = schema
        versions = self.versions.setdefault(subject, {})
        if schema_id not in versions.values():
            versions[len(versions) + 1] = schema_id
        return schema_id

    def look_up(self, subject: str, declared: Mapping[str, Any]) -> dict[str, Any]:
        schema_id = self._find(_content(declared))
        version = next((one for one, known in self.of(subject).items() if known == schema_id), None)
        if version is None:
            raise _NotFoundError(40403, "Schema not found")
        return self.version(subject, version)

    def of(self, subject: str, with_deleted: bool = False) -> dict[int, int]:
        versions = {
            version: schema_id
            for version, schema_id in self.versions.get(subject, {}).items()
            if with_deleted or (subject, version) not in self.deleted
        }
        if not versions:
            raise _NotFoundError(40401, f"Subject '{subject}' not found.")
        return versions

    def version(self, subject: str, version: int | str, with_deleted: bool = False) -> dict[str, Any]:
        versions = self.of(subject, with_deleted)
        number = max(versions) if version == "latest" else int(version)
        if number not in versions:
            raise _NotFoundError(40402, f"Version {number} not found.")
        return {**self.schema(versions[number]), "subject": subject, "version": number, "id": versions[number]}

    def schema(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self.by_id:
            raise _NotFoundError(40403, f"Schema {schema_id} not found")
        return {**self.by_id[schema_id], "guid": guid_of(self.by_id[schema_id])}

    def by_guid(self, guid: str) -> dict[str, Any]:
        for schema in self.by_id.values():
            if guid_of(schema) == guid:
                return {**schema, "guid": guid}
        raise _NotFoundError(40403, f"Schema {guid} not found")

    def subjects_of(self, schema_id: int) -> list[dict[str, Any]]:
        self.schema(schema_id)
        return [
            {"subject": subject, "version": version}
            for subject, versions in self.versions.items()
            for version, known in versions.items()
            if known == schema_id and (subject, version) not in self.deleted
        ]

    def described(self, told: dict[str, Any]) -> dict[str, Any]:
        """``told`` with its schema, if that is of Protobuf, as a descriptor."""
        if told.get("schemaType") != "PROTOBUF" or "syntax" not in told["schema"]:
            return told
        references = [
            (one["name"], self.version(one["subject"], one["version"], True)) for one in told.get("references", ())
        ]
        files = (("", told["schema"]), *((name, schema["schema"]) for name, schema in references))
        main = FileDescriptorSet.FromString(compile_protobuf(files)).file[-1]
        return {**told, "schema": base64.b64encode(main.SerializeToString()).decode()}

    def _find(self, schema: Mapping[str, Any]) -> int | None:
        same = self._normalized(schema)
        return next((number for number, known in self.by_id.items() if self._normalized(known) == same), None)

    def _normalized(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """In whatever order the members of a message of Protobuf are declared, it is the same."""
        return {**schema, "schema": sorted(schema["schema"].splitlines())} if self.normalizes else schema


def guid_of(schema: Mapping[str, Any]) -> str:
    """The GUID of a schema, which its content decides."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(schema, sort_keys=True)))


def _content(declared: Mapping[str, Any]) -> dict[str, Any]:
    # Of Avro, a registry tells no type.
    kept = {key: declared[key] for key in ("schema", "references", "schemaType") if declared.get(key)}
    return {key: value for key, value in kept.items() if (key, value) != ("schemaType", "AVRO")}


class SchemaRegistry:
    """A registry. ``fault`` is what it answers to each request instead; ``silent``: it answers none."""

    def __init__(self, user: str | None = None, password: str | None = None) -> None:
        self._schemas = _Schemas()
        self._expected = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}" if user else None
        self.fault: Answer | None = None
        self.asked: list[str] = []
        """Each request, such as ``GET /subjects``."""
        self.has_guids = True
        """Whether it tells schemas by their GUIDs. Not every registry does."""
        self.refuses: str | None = None
        """Why it takes no schema."""
        self.is_backward = False
        """Whether it refuses a schema that is not backward compatible with the newest one of its subject."""
        self.url = ""
        self._answering = threading.Event()
        self._answering.set()

    def register(
        self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None, kind: str = ""
    ) -> int:
        """Register a ``schema``, a text or JSON value, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._schemas.register(subject, {"schema": text, "references": references, "schemaType": kind})

    def guid(self, schema_id: int) -> uuid.UUID:
        """The GUID of a schema."""
        return uuid.UUID(self._schemas.schema(schema_id)["guid"])

    def normalize(self) -> None:
        """From now on, take schemas as equal that are so but for the order of their lines."""
        self._schemas.normalizes = True

    def forget(self, schema_id: int) -> None:
        """Know a schema no more."""
        del self._schemas.by_id[schema_id]

    def delete(self, subject: str, version: int) -> None:
        """Delete a version as registries do at first: who knows of it can still ask for it."""
        self._schemas.deleted.add((subject, version))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Answer nothing within the block."""
        self._answering.clear()
        try:
            yield
        finally:
            self._answering.set()

    def answer(self, method: str, path: str, authorization: str | None, body: Any, query: str = "") -> Answer:
        """The status and the JSON value of an answer."""
        self.asked.append(f"{method} {path}")
        self._answering.wait()
        if self._expected and authorization != self._expected:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.fault:
            return self.fault
        for pattern, respond in self._routes("deleted=true" in query.lower()).items():
            if found := re.fullmatch(pattern, f"{method} {path}"):
                try:
                    told = respond(*map(unquote, found.groups()), *([body] if method == "POST" else []))
                    return 200, self._schemas.described(told) if "format=serialized" in query else told
                except _NotFoundError as error:
                    return 404, {"error_code": error.code, "message": str(error)}
                except _ConflictError as error:
                    return 409, {"error_code": 409, "message": str(error)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _routes(self, with_deleted: bool) -> dict[str, Callable[..., Any]]:
        known = self._schemas
        return {
            "GET /subjects": lambda: sorted(
                one for one in known.versions if not all((one, v) in known.deleted for v in known.versions[one])
            ),
            "GET /schemas/types": lambda: ["JSON", "PROTOBUF", "AVRO"],
            "GET /subjects/([^/]+)/versions": lambda subject: sorted(known.of(subject, with_deleted)),
            r"GET /subjects/([^/]+)/versions/(latest|\d+)": lambda subject, version: known.version(
                subject, version, with_deleted
            ),
            r"GET /schemas/ids/(\d+)": lambda schema_id: known.schema(int(schema_id)),
            r"GET /schemas/ids/(\d+)/versions": lambda schema_id: known.subjects_of(int(schema_id)),
            **({"GET /schemas/guids/([^/]+)": known.by_guid} if self.has_guids else {}),
            "POST /subjects/([^/]+)": known.look_up,
            "POST /subjects/([^/]+)/versions": self._registered,
        }

    def _registered(self, subject: str, declared: Mapping[str, Any]) -> dict[str, Any]:
        if self.refuses:
            raise _ConflictError(self.refuses)
        has_rules = self.is_backward and subject in self._schemas.versions
        if has_rules and (conflict := find_conflict(self._schemas.version(subject, "latest"), declared)):
            raise _ConflictError(f"Schema being registered is incompatible with an earlier one: {conflict}")
        schema_id = self._schemas.register(subject, declared)
        return {**self._schemas.schema(schema_id), "id": schema_id}


@contextmanager
def serve_registry(
    registry: SchemaRegistry, port: int = 0, certificate: tuple[Path, Path] | None = None
) -> Iterator[SchemaRegistry]:
    """Within the block, ``registry`` answers at its ``url``. ``certificate`` are files with one and its key, for TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            asked = urlsplit(self.path)
            authorization = self.headers.get("Authorization")
            status, value = registry.answer(self.command, asked.path, authorization, body, asked.query)
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815 (the server's names)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        # A handler may wait in a connection that its client keeps.
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # A client that has gone, or does not trust it.

    server = Server(("127.0.0.1", port), Handler)
    scheme = "http"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
