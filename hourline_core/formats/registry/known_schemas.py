"""The schemas that were got from a registry: in memory, and in a folder of the workspace.

A schema never changes by its id. So with those that are known, decoding goes on while the registry is away. That an id
has no schema is remembered for a short time, since it may be registered at any moment.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from hourline_core.formats.registry.client import NotInRegistryError, RegistryClient
from hourline_core.formats.registry.wire_format import SchemaId
from hourline_core.formats.registry.written_schema import WrittenSchema
from hourline_core.model.registry import RegistryAccess

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""The seconds until an id is asked for again of which there was no schema. They double with each such answer."""
_MOST_UNKNOWN = 10_000
"""Malformed records may name any id."""


class _Unknown(NamedTuple):
    """There was no schema of an id."""

    answer: NotInRegistryError
    pause: float
    until: float
    """When it is asked for again, by the clock."""


class KnownSchemas:
    """The schemas of one registry by their ids. ``clock`` is in seconds."""

    def __init__(self, access: RegistryAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unknown: dict[SchemaId, _Unknown] = {}
        self._folder = Path(access.folder)
        self._client = RegistryClient(access)
        self._known: dict[SchemaId, WrittenSchema] = {}

    def find(self, schema_id: SchemaId) -> WrittenSchema:
        """The schema. Raises NotInRegistryError, RegistryAwayError and RegistryForbidsError as ``RegistryClient``. The
        first one may be an answer of up to 30 seconds ago.
        """
        schema = self._known.get(schema_id) or self._read(schema_id)
        if schema is None:
            schema = self._ask(schema_id)
            self._write(schema)
        self._known[schema_id] = schema
        return schema

    def _ask(self, schema_id: SchemaId) -> WrittenSchema:
        before = self._unknown.get(schema_id)
        if before and self._clock() < before.until:
            raise NotInRegistryError(str(before.answer), before.answer.reference)
        try:
            schema = self._client.schema(schema_id)
        except NotInRegistryError as answer:
            pause = min(before.pause * 2, _LONGEST_PAUSE) if before else _FIRST_PAUSE
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema_id] = _Unknown(answer.with_traceback(None), pause, self._clock() + pause)
            raise
        self._unknown.pop(schema_id, None)
        return schema

    def _file(self, schema_id: SchemaId) -> Path:
        return self._folder / f"{schema_id}.json"

    def _read(self, schema_id: SchemaId) -> WrittenSchema | None:
        try:
            stored = json.loads(self._file(schema_id).read_text("utf-8"))
            text, references = str(stored["text"]), {str(name): str(of) for name, of in stored["references"].items()}
            return WrittenSchema(schema_id, str(stored["kind"]), text, references, tuple(map(str, stored["subjects"])))
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ):  # It is not there, or somebody has changed it.
            return None

    def _write(self, schema: WrittenSchema) -> None:
        content = json.dumps({**asdict(schema), "id": str(schema.id)})
        with suppress(OSError):  # The disk may be full, or of another machine: memory has it.
            self._folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._folder, delete=False, encoding="utf-8") as file:
                try:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(self._file(schema.id))
                except OSError:
                    Path(file.name).unlink(missing_ok=True)
                    raise


@cache
def known_schemas(access: RegistryAccess) -> KnownSchemas:
    """The schemas of the registry of ``access``, which all decoders of this process share."""
    return KnownSchemas(access)
