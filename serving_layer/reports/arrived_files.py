"""Reports the files that have arrived at a source: how many were read, and which ones are not read."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime

from hourline_core.ledger.read_offsets import ARRIVALS, Reading
from hourline_core.model import Source
from hourline_core.runtime.unread_files import find_unread_files
from hourline_core.sql.all_progress import FILES_READ_SQL
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.each_source import ask_each
from serving_layer.reports.kafka_offsets import PartitionOffsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import TopicReading
from serving_layer.reports.unread import ReadOffsets


class UnreadFile(Described):
    """A file, a folder or a commit of a Delta table that the running speed layer does not read as it is."""

    name: str
    """The name of the file, below the folder."""
    since: datetime
    """Since when it is so (UTC)."""
    reason: str
    """Why it is not read, as a sentence."""


class ArrivedFiles(Described):
    """The files of a source that reads them as they arrive."""

    read: int
    """The number of files of which rows were read."""
    waiting: int | None
    """The number of files that are not read yet. Null: the speed layer, which counts them, does not run."""
    left_out: int | None
    """The number of files in the folder that have the bytes of another one, which was read. Null: as before."""
    unread: list[UnreadFile]
    """The first 100 files that are not read as they are. Empty also if the speed layer does not run."""


def find_arrived_files(connection: Connection, sources: Collection[Source]) -> dict[str, ArrivedFiles]:
    """By source, those of the ``sources`` that read files."""
    read = {name: rows["files"].to_pylist() for name, rows in ask_each(connection, FILES_READ_SQL).items()}
    workspace = connection.project.workspace
    found = {}
    for source in sources:
        if source.reads_files:
            unread = find_unread_files(workspace, source.name)
            found[source.name] = ArrivedFiles(
                read=sum(read.get(source.name, ())),
                waiting=unread.waiting if unread else None,
                left_out=unread.left_out if unread else None,
                unread=[UnreadFile(**asdict(of)) for of in (unread.held if unread else ())],
            )
    return found


def readings_of_files(source: Source, files: ArrivedFiles) -> ReadOffsets:
    """How far the folder was read, as if it were a topic whose offsets are files."""
    assert source.place, "the source reads files"
    return ReadOffsets({source.place: TopicReading(ARRIVALS, Reading({0: files.read}, {}, {}))})


def offsets_of_files(source: Source, files: ArrivedFiles) -> TopicOffsets | Unknown:
    """How far the folder reaches, as if it were a topic whose offsets are files."""
    if files.waiting is None:
        return Unknown(f"the speed layer does not run, which counts the files of source '{source.name}'")
    assert source.place, "the source reads files"
    return {source.place: {0: PartitionOffsets(0, files.read + files.waiting)}}
