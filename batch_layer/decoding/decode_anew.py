"""Extends the table of events that were decoded anew, in chunks of micro-batches.

A chunk is one commit, which records the sequence up to which the table is complete. So a kill costs one chunk, and no
record is decoded twice. Readers of results do not use the table before a publication has. Tasks decode and write, and
the driver commits their files.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from batch_layer.decoding.chunks import Chunk, files_of, list_chunks
from batch_layer.decoding.decode_by_spark import decode_by_spark
from batch_layer.decoding.tasks import DecodedTable, DecodingPlan, decode_files, write_rows
from batch_layer.decoding.to_decode import DECODE_WRITER, decoded_up_to, last_to_decode
from hourline_core.compute.resolve import empty_events
from hourline_core.errors import ReadAgainError, TableError
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.ledger.decode_records import needs_no_spark
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import DECODED_SCHEMA, Layout, stored_names
from hourline_core.ledger.open_progress import sync_progress
from hourline_core.ledger.progress import BYTES_WRITER, Progress
from hourline_core.ledger.read_again import count_rejected_ahead
from hourline_core.model import Project, Source
from hourline_core.model.decoding import BYTES_ALONE
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.data_files import damage_of
from hourline_core.storage.new_files import NewFile, append_files
from hourline_core.storage.nullable_schema import nullable_schema
from hourline_core.storage.opening import open_table, update
from hourline_core.storage.version_retention import PUBLISHED


def decode_anew(
    spark: Callable[[], SparkSession],
    project: Project,
    source: Source,
    up_to: int,
    on_chunk: Callable[[int, int, int], None] = lambda rows, number, chunks: None,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> bool:
    """Decode the archived records of ``source`` up to the sequence ``up_to`` that other declarations have decoded, as
    far as this was not done before. Returns whether there are such records. Starts Spark only for them.

    Each commit is made within ``turn()``, in which the caller holds the lease "batch". ``on_chunk`` is called after it,
    with the number of its rows, of the chunk, and of all chunks.

    Raises TableError, ConflictError when another process writes to the table, ReadAgainError while the speed layer is
    to validate some of these records again after a reset, and RegistryError if the schema registry has not told a
    schema that they name.
    """
    layout = Layout.of(project)
    decodings = ArchiveDecodings.read(layout, source)
    if not decodings.others:
        return False
    events = open_table(layout.events(source), layout.storage_options)
    rejected = open_table(layout.rejected(source), layout.storage_options)
    up_to = last_to_decode(decodings, rejected, up_to)
    if decoded_up_to(layout, source, decodings.now) >= up_to:
        return True
    with turn():
        decoding = _Decoding(spark(), layout, source, events, rejected, decodings)
    chunks = decoding.list_chunks(up_to)
    for number, chunk in enumerate(chunks, start=1):
        with turn():
            sync_progress(project, [source])
            rows = decoding.extend(chunk)
        if rows is not None:
            on_chunk(rows, number, len(chunks))
    return True


class _Decoding:
    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        source: Source,
        events: DeltaTable,
        rejected: DeltaTable,
        decodings: ArchiveDecodings,
    ) -> None:
        self._spark, self._layout, self._source, self._decodings = spark, layout, source, decodings
        self._events, self._rejected = events, rejected
        stored = stored_names(source)
        fields = {stored.get(name, name): of for name, of in _field_types(spark, source).items()}
        schema = pa.schema([*DECODED_SCHEMA, *nullable_schema(pa.schema(fields))])
        uri, options = layout.decoded(source, decodings.now.hash), layout.storage_options
        self._table = open_or_create(
            uri, options, "decoded", schema, PUBLISHED, f"events of {source.name} that were decoded anew"
        )
        self._plan = DecodingPlan(
            source,
            decodings.others,
            layout.events(source),
            layout.rejected(source),
            DecodedTable(uri, options, schema),
        )

    def list_chunks(self, up_to: int) -> list[Chunk]:
        """The chunks that are not decoded anew yet, up to the sequence ``up_to``."""
        return list(list_chunks([self._events, self._rejected], self._done() + 1, up_to))

    def extend(self, chunk: Chunk) -> int | None:
        """Add the events of ``chunk``, and return their number. None: another process has done so."""
        update(self._table)
        if self._done() >= chunk.last:
            return None
        self._refuse_read_again(chunk)
        files = self._decode(Chunk(max(chunk.first, self._done() + 1), chunk.last))
        append_files(self._table, files, {"sequence": chunk.last}, [DECODE_WRITER], chunk.last)
        return sum(file.rows for file in files)

    def _done(self) -> int:
        return self._table.transaction_version(DECODE_WRITER) or 0

    def _refuse_read_again(self, chunk: Chunk) -> None:
        """Raise ReadAgainError if the speed layer is to validate rejected records of ``chunk`` again. The table was
        opened before: see ``ledger/read_again.py``.
        """
        progress = Progress(open_table(self._layout.progress(self._source), self._layout.storage_options))
        update(self._events)
        update(self._rejected)
        if not files_of(self._rejected, *chunk):
            return
        others = [one.hash for one in self._decodings.others]
        if count := count_rejected_ahead(self._source, progress, self._events, self._rejected, others, chunk):
            raise ReadAgainError(
                f"source '{self._source.name}' is to be read again after a reset, with {count:,} record(s) that "
                "another declaration has rejected; they are decoded anew after that: start `hourline up`, and then "
                "recompute again"
            )

    def _decode(self, chunk: Chunk) -> list[NewFile]:
        """The files with the rows of the table for ``chunk``."""
        if self._has_brought_bytes(chunk) or not needs_no_spark(self._source, self._decodings.others):
            rows = decode_by_spark(self._spark, self._source, self._events, self._rejected, self._decodings, chunk)
            return write_rows(rows, self._plan.decoded)
        events, rejected = (files_of(table, *chunk) for table in (self._events, self._rejected))
        try:
            return decode_files(self._spark, self._plan, chunk, events, rejected)
        except (OSError, pa.ArrowInvalid) as error:
            if damage := damage_of(self._events) or damage_of(self._rejected):
                raise TableError(damage) from error
            raise

    def _has_brought_bytes(self, chunk: Chunk) -> bool:
        """Whether ``chunk`` has bytes of records whose events were archived before, without them."""
        if not self._decodings.lost or (self._rejected.transaction_version(BYTES_WRITER) or 0) < chunk.first:
            return False
        within = [("sequence", ">=", chunk.first), ("sequence", "<=", chunk.last)]
        made = self._rejected.to_pyarrow_table(columns=["decoding"], filters=within)["decoding"]
        return bool(pc.any(pc.equal(made.cast(pa.string()), BYTES_ALONE)).as_py())


def _field_types(spark: SparkSession, source: Source) -> dict[str, pa.DataType]:
    """By name, the Arrow types of the fields of an event."""
    if not source.explode:
        return {name: arrow_type(field.tree) for name, field in source.fields.items()}
    fields = empty_events(spark, source).select(*source.event_fields)  # Spark knows the type of an element.
    return {column.name: column.type for column in to_arrow_schema(fields.schema, timezone="UTC")}
