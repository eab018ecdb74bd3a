"""Decodes records that name the schema they were written by. Each format has decoders of its own for these schemas."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.registry.client import NotInRegistryError
from hourline_core.formats.registry.known_schemas import known_schemas
from hourline_core.formats.registry.wire_format import NoSchemaIdError, WrittenBy, written_by
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.formats.typed_columns import TypedColumns
from hourline_core.model.base import describe
from hourline_core.model.fields import Field
from hourline_core.model.registry import RegistryAccess

_MOST_READINGS = 1000
"""Of so many schemas and messages, it is kept how they are decoded."""


class UnreadableError(Exception):
    """No record of a schema can be read. The text says why."""


class WriterDecoder(Protocol):
    """Decodes values that were written by one schema, without what names it. See ``Decoder``."""

    @property
    def fault(self) -> str | None:
        """Why no record at all can be decoded. None: there is no such reason."""

    def decode(self, values: pa.Array) -> DecodedRecords:
        """Decode ``values`` (binary), each alone."""


class Writers(Protocol):
    """Makes decoders for writers' schemas of one format. It can be pickled."""

    kind: SchemaKind
    takes_empty: bool
    """Whether nothing behind what names the schema is a record."""

    @property
    def fault(self) -> str | None:
        """Why no record of the declared schema itself can be decoded. None: there is no such reason."""

    def decoder_of(self, schema: WrittenSchema, message: tuple[int, ...]) -> WriterDecoder:
        """What decodes records of ``schema`` as their source declares them. ``message`` is the place of theirs in it,
        see WrittenBy. Raises UnreadableError.
        """


class _Reading(NamedTuple):
    """How records of one schema are decoded."""

    schema: str
    decoder: WriterDecoder


class RegistryDecoder:
    """Decodes records that name schemas of the registry of ``access``. It can be pickled."""

    def __init__(self, access: RegistryAccess, writers: Writers, fields: Mapping[str, Field]) -> None:
        self._access, self._writers, self._fields = access, writers, dict(fields)
        self._nothing = TypedColumns(self._fields, 1).finish()
        self._readings: dict[WrittenBy, _Reading | str] = {}
        """By schema and message, how its records are decoded, or why they are not."""

    def __reduce__(self) -> tuple[type["RegistryDecoder"], tuple[RegistryAccess, Writers, dict[str, Field]]]:
        return RegistryDecoder, (self._access, self._writers, self._fields)

    @property
    def fault(self) -> str | None:
        """Why no record of the declared schema can be decoded; see ``Decoder``."""
        return self._writers.fault

    def decode(self, values: pa.Array | pa.ChunkedArray, schema_ids: pa.Array | None = None) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``decode`` of ``format``.

        Raises RegistryAwayError and RegistryForbidsError if the registry does not answer about a schema that is not
        known here. If it answers that there is none, the record is refused.
        """
        headers = [None] * len(values) if schema_ids is None else schema_ids.to_pylist()
        reasons: dict[int, str] = {}
        places: dict[WrittenBy, list[int]] = defaultdict(list)
        written: dict[WrittenBy, list[bytes]] = defaultdict(list)
        takes_empty, has_messages = self._writers.takes_empty, self._writers.kind == "PROTOBUF"
        for place, (value, header) in enumerate(zip(values.to_pylist(), headers, strict=True)):
            if value is None or (not value and not takes_empty):
                continue
            try:
                by, begin = written_by(value, header, has_messages)
            except NoSchemaIdError as why:
                reasons[place] = str(why)
                continue
            places[by].append(place)
            written[by].append(value[begin:])
        parts, chosen, size = [self._nothing], np.zeros(len(values), np.int64), 1
        for by, of_schema in places.items():
            decoded = self._decode_of(by, written[by])
            if isinstance(decoded, str):
                reasons |= dict.fromkeys(of_schema, decoded)
            else:
                chosen[of_schema] = np.arange(size, size + len(of_schema))
                size += len(of_schema)
                parts.append(decoded)
        columns = {name: _taken([one.columns[name] for one in parts], chosen) for name in self._fields}
        refused = pa.array(map(reasons.get, range(len(values))), pa.string(), size=len(values))
        return DecodedRecords(columns, pc.coalesce(refused, _taken([one.reasons for one in parts], chosen)))

    def _decode_of(self, by: WrittenBy, written: list[bytes]) -> DecodedRecords | str:
        """What ``written`` is by the schema and message that have written it, or why none of it can be decoded."""
        reading = self._readings.get(by)
        if reading is None:
            try:
                schema = known_schemas(self._access).find(by.schema)
            except NotInRegistryError as error:  # It may know it when it is asked again: ``find`` says when.
                missing = f": its reference {describe(error.reference)}" if error.reference else ""
                return f"schema id {by.schema}{missing} is not in the registry, which answers: {error}"
            if len(self._readings) >= _MOST_READINGS:  # Records that are malformed may name any message.
                self._readings.clear()
            reading = self._readings[by] = self._reading_of(schema, by.message)
        if isinstance(reading, str):
            return reading
        decoded = reading.decoder.decode(pa.array(written, pa.binary()))
        reasons = decoded.reasons
        if not self._writers.takes_empty:
            # A decoder leaves an empty value to validation, which sees the id in front of it.
            is_empty = pc.equal(pa.array(map(len, written)), 0)
            reasons = pc.coalesce(reasons, pc.if_else(is_empty, "no value behind the schema id", None))
        of_schema = pc.binary_join_element_wise(pa.scalar(reading.schema), reasons.cast(pa.string()), ": ")
        return DecodedRecords(decoded.columns, of_schema)

    def _reading_of(self, schema: WrittenSchema, message: tuple[int, ...]) -> _Reading | str:
        if schema.kind != self._writers.kind:
            return f"{schema}: got a schema of {schema.kind}, want one of {self._writers.kind}"
        try:
            decoder = self._writers.decoder_of(schema, message)
        except UnreadableError as why:
            return f"{schema}: {why}"
        return f"{schema}: {decoder.fault}" if decoder.fault else _Reading(str(schema), decoder)


def _taken(parts: list[pa.Array], chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.concat_arrays(parts).take(pa.array(chosen))
