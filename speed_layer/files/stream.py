"""The running stream of a source that reads files: a thread that reads one file after the other, in micro-batches."""

from collections.abc import Callable, Iterator
from functools import partial

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
from speed_layer.files.read_rows import Chunk, as_records, read_chunks
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.kafka.record_origin import Origin
from speed_layer.streams.thread_stream import ThreadStream


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
        """The file that is being read. None: none is."""
        self._chunks: Iterator[Chunk] = iter(())
        self._read = 0
        """The number of its rows that were read."""
        self._idle = IdlePartitions(self._tables, dict[tuple[str, int], int], dict[tuple[str, int], int], clock)
        self._finished = 0
        self._noted: UnreadFiles | None = None
        self._thread.start()

    def _may_go_on(self) -> bool:
        return not self._drain or not self._arrivals.is_drained()

    def _read_next(self) -> bool:
        if self._file is None:
            self._file = self._arrivals.next()
            self._note_unread()
            if self._file is None:
                return False
            self._begin(self._file)
        file = self._file
        try:
            chunk = next(self._chunks, None)
        except (HourlineError, OSError) as error:
            self._hold(file, str(error))
            return True
        if not file.is_unchanged():
            self._hold(file, "it was changed or taken away while it was read")
        elif chunk is None or (self._commit_chunk(file, chunk) and chunk.end == file.rows.total):
            self._arrivals.finish(file)
            self._file = None
        return True

    def _begin(self, file: ArrivedFile) -> None:
        self._arrivals.begin(file)
        if not file.begun:
            self._reader.meet_new(file.topic_id)
        self._chunks, self._read = read_chunks(file.rows, file.begun, self._project), file.begun

    def _hold(self, file: ArrivedFile, reason: str) -> None:
        self._arrivals.hold(file, self._read, reason)
        self._file = None

    def _commit_chunk(self, file: ArrivedFile, chunk: Chunk) -> bool:
        """Read the chunk, and commit it. Returns whether it was committed."""
        origin = Origin({file.name: file.topic_id}, goes_on=chunk.end < file.rows.total)
        records = as_records(self._spark, file.name, chunk, is_csv=file.is_csv)
        arrived = F.lit(self._clock().isoformat()).cast("timestamp")
        evaluated = self._reader.tasks.records.apply(records, arrived)
        read = self._reader.read(evaluated, origin, {(file.name, 0): chunk.end}, self._sequence)
        assert read, "a chunk has rows"
        committed = self._commit(partial(self._finish, read))
        if committed:
            self._read = chunk.end
        return committed

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
