"""The running stream of a source that reads files: a thread that reads one file after the other, in micro-batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.errors import HourlineError
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.runtime.unread_files import UnreadFiles, note_unread_files
from speed_layer.commit.committer import Committer, Finished
from speed_layer.commit.idle_partitions import IdlePartitions
from speed_layer.commit.maintenance import maintain_after
from speed_layer.files.arrivals import Arrivals, ArrivedFile
from speed_layer.files.read_rows import BYTES_OF_CHUNK, Chunk, as_records, most_rows, read_chunks
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.kafka.record_origin import Origin
from speed_layer.streams.thread_stream import ThreadStream

_MOST_FILES = 500
"""The maximum number of files of which a micro-batch has rows. Progress gets a row for each."""


class FileStream(ThreadStream):
    """A stream of the files that ``arrivals`` gives. With ``drain``, it ends when all that was there at first has been
    read.
    """

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        arrivals: Arrivals,
        reader: MicroBatchReader,
        committer: Committer,
        on_finished: Callable[[Finished], None],
        clock: Clock,
        *,
        drain: bool,
    ) -> None:
        super().__init__(spark, reader.source_tables, "read the files of")
        self._project, self._arrivals, self._drain = project, arrivals, drain
        self._reader, self._committer, self._on_finished, self._clock = reader, committer, on_finished, clock
        self._file: ArrivedFile | None = None
        """The file of which further rows are to be read. None: none is begun."""
        self._chunks: Iterator[Chunk] = iter(())
        self._idle = IdlePartitions(self._tables, dict[tuple[str, int], int], dict[tuple[str, int], int], clock)
        self._finished = 0
        self._noted: UnreadFiles | None = None
        self._thread.start()

    def _may_go_on(self) -> bool:
        return not self._drain or not self._arrivals.is_drained()

    def _read_next(self) -> bool:
        parts = self._leave_out_changed(self._collect())
        self._note_unread()
        if not parts:
            return self._file is not None or self._end_clock()
        if self._commit(partial(self._finish, self._read(parts))):
            for file, chunk in parts:
                self._arrivals.note_read(file, chunk.end)
        return True

    def _end_clock(self) -> bool:
        """Let the clock go on behind the rows of a file that is held in its middle. False: there is none."""
        if not (clock := self._reader.end_file()):
            return False
        return self._commit(partial(self._tables.finish_clock, self._sequence, clock, self._clock()))

    def _collect(self) -> list[tuple[ArrivedFile, Chunk]]:
        """The next rows of files, up to the size of a micro-batch. Many small files share one."""
        most, parts, rows, size = most_rows(self._project), list[tuple[ArrivedFile, Chunk]](), 0, 0
        while size < BYTES_OF_CHUNK and len(parts) < _MOST_FILES:
            file = self._file or self._begin_next()
            if file is None or (rows and rows + min(file.rows.total - file.begun, most) > most):
                break
            try:
                chunk = next(self._chunks, None)
            except (HourlineError, OSError) as error:
                self._hold(file, str(error))
                break
            if chunk is None:
                self._file = None
                continue
            parts.append((file, chunk))
            rows, size = rows + len(chunk.payloads), size + sum(map(len, chunk.payloads))
            if chunk.end == file.rows.total:
                self._file = None
        return parts

    def _begin_next(self) -> ArrivedFile | None:
        self._file = file = self._arrivals.next()
        if file is not None:
            self._arrivals.begin(file)
            if not file.begun:
                self._reader.meet_new(file.topic_id)
            self._chunks = read_chunks(file.rows, file.begun, self._project)
        return file

    def _leave_out_changed(self, parts: Iterable[tuple[ArrivedFile, Chunk]]) -> list[tuple[ArrivedFile, Chunk]]:
        """``parts`` without those of files that are not what they were when they were opened."""
        kept, held = list[tuple[ArrivedFile, Chunk]](), set[str]()
        for file, chunk in parts:
            if file.is_unchanged() and file.name not in held:
                kept.append((file, chunk))
            elif file.name not in held:
                held.add(file.name)
                self._hold(file, "it was changed or taken away while it was read")
        return kept

    def _hold(self, file: ArrivedFile, reason: str) -> None:
        self._arrivals.hold(file, reason)
        if self._file is file:
            self._file = None

    def _read(self, parts: Sequence[tuple[ArrivedFile, Chunk]]) -> Read:
        """Read the rows as a micro-batch."""
        last, chunk = parts[-1]
        origin = Origin({file.name: file.topic_id for file, _ in parts}, goes_on=chunk.end < last.rows.total)
        records = self._spark.createDataFrame(
            pa.concat_tables([as_records(file.name, chunk, file.format) for file, chunk in parts])
        )
        arrived = F.lit(self._clock().isoformat()).cast("timestamp")
        evaluated = self._reader.tasks.records.apply(records, arrived)
        ends = {(file.name, 0): chunk.end for file, chunk in parts}
        read = self._reader.read(evaluated, origin, ends, self._sequence)
        assert read, "a chunk has rows"
        return read

    def _finish(self, read: Read) -> None:
        self._on_finished(self._committer.commit(read))
        self._finished += 1
        maintain_after(self._project, self._tables, self._finished)

    def _advance_idle_clock(self) -> None:
        if not self._arrivals.unread.waiting and self._idle.moves_clock():
            self._commit(partial(self._idle.commit, self._sequence, {}))

    def _note_unread(self) -> None:
        unread = self._arrivals.unread
        if unread != self._noted:
            note_unread_files(self._project.workspace, self.source, unread)
            self._noted = unread
