"""Imports history from files into ``events``, without Kafka. Each chunk of rows is a micro-batch like any other, with
the same validation, deduplication and progress.

A file is identified by its content, and a row by its number, as a Kafka record is by topic id, partition and offset. So
progress tells how far a file has been imported. Importing the same file again does nothing, and an interrupted import
goes on at the next row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.formats.files.data_file import DataFile, Format, find_data_file
from hourline_core.formats.files.own_format import FORMATS_OF_RECORDS
from hourline_core.formats.files.reading import Rows, rows_of
from hourline_core.ledger.open_progress import find_progress
from hourline_core.ledger.read_offsets import FILE
from hourline_core.model import Project, Source
from hourline_core.model.hours import wall_clock
from speed_layer.commit.committer import Finished
from speed_layer.commit.maintenance import maintain_after
from speed_layer.files.read_rows import as_records, hash_content, read_chunks, refuse_foreign
from speed_layer.kafka.record_origin import Origin
from speed_layer.streams.open_source import open_source


@dataclass(frozen=True)
class HistoryFile:
    """A file to import."""

    file: DataFile
    rows: Rows
    topic_id: str
    """The id of its content, as ``FILE`` says."""
    imported: int
    """The number of its rows, from the first on, that were imported before."""

    @property
    def name(self) -> str:
        """Its name, without its folder."""
        return self.file.member or self.file.path.name


@dataclass(frozen=True)
class Imported:
    """What this run imported of one file."""

    file: HistoryFile
    rows: int = 0
    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    not_taken: int = 0

    def plus(self, finished: Finished) -> "Imported":
        """The sum of this and a further micro-batch."""
        return replace(
            self,
            rows=self.rows + finished.records,
            accepted=self.accepted + finished.accepted,
            rejected=self.rejected + finished.rejected,
            duplicates=self.duplicates + finished.duplicates,
            not_taken=self.not_taken + finished.not_taken,
        )


def find_history(
    project: Project, source: Source, names: list[str], format: Format | None = None, null_text: str | None = None
) -> list[HistoryFile]:
    """Return the files ``names``, each read through once, with how far each was imported before. A file that is given
    twice is returned once. ``format`` and ``null_text`` are as in a replay.

    Raises UsageError when a file is missing, a folder, empty, damaged, or does not fit ``source``. Nothing is imported
    then.
    """
    by_topic_id: dict[str, HistoryFile] = {}
    for name in names:
        file = find_data_file(name, format)
        rows = rows_of(file, null_text)
        refuse_foreign(file, rows, source)
        # In another format, other parts of the same content are its records.
        of_format = f".{file.format}" if file.format in FORMATS_OF_RECORDS else ""
        topic_id = f"{FILE}{hash_content(file)}{of_format}"
        by_topic_id.setdefault(topic_id, HistoryFile(file, rows, topic_id, _imported(project, source, topic_id)))
    return list(by_topic_id.values())


def import_files(
    spark: SparkSession,
    project: Project,
    source: Source,
    files: list[HistoryFile],
    *,
    stopped: Callable[[], bool] = lambda: False,
    on_finished: Callable[[Finished], None] = lambda finished: None,
) -> list[Imported]:
    """Import the rows of ``files`` that were not imported before. A micro-batch has at most ``max_records_per_batch``,
    100,000 rows or 64 MB. ``on_finished`` is called after each of them.

    ``stopped`` is asked between two micro-batches. The rows arrive now: event times too far ahead of that are rejected.
    Returns what was imported of each file. Raises TableError, and ConflictError when another process writes to the
    tables; what was imported until then stays. The caller holds the lease "speed".
    """
    # Spark puts small tables into the plan itself, where its optimizer parses them: three times slower.
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    done = [Imported(file) for file in files]
    topic_ids = [file.topic_id for file in files]
    reader, committer = open_source(spark, project, source, topic_ids, wall_clock, reads_alone=True)
    chunks = ((place, chunk) for place, of in enumerate(files) for chunk in read_chunks(of.rows, of.imported, project))
    for number, (place, chunk) in enumerate(chunks):
        if stopped():
            break
        file = files[place]
        origin = Origin({file.name: file.topic_id}, history=True)
        records = spark.createDataFrame(as_records(file.name, chunk, file.file.format))
        sequence, ends = reader.source_tables.first_sequence + number, {(file.name, 0): chunk.end}
        arrived = F.lit(wall_clock().isoformat()).cast("timestamp")
        read = reader.read(reader.tasks.records.apply(records, arrived), origin, ends, sequence)
        assert read, "a chunk has rows"
        finished = committer.commit(read)
        on_finished(finished)
        done[place] = done[place].plus(finished)
        maintain_after(project, reader.source_tables, number + 1)
    return done


def touched_hours(project: Project, source: Source, files: list[HistoryFile]) -> set[datetime]:
    """The hours that the rows of ``files`` lie in, whenever they were imported. Raises TableError."""
    progress = find_progress(project, source)
    return progress.hours_of([file.topic_id for file in files]) if progress else set()


def _imported(project: Project, source: Source, topic_id: str) -> int:
    progress = find_progress(project, source)
    return progress.reading(topic_id).next_offsets.get(0, 0) if progress else 0
