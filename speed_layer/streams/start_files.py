"""Starts the stream of a source that reads files."""

from collections.abc import Mapping

from hourline_core.ledger.files_read import FileRead
from hourline_core.ledger.open_progress import find_progress
from hourline_core.ledger.read_offsets import ARRIVALS
from hourline_core.model import Source
from speed_layer.files.delta_commits import DeltaTableCommits
from speed_layer.files.folder import Folder
from speed_layer.files.stream import FileStream
from speed_layer.streams.environment import StreamEnvironment
from speed_layer.streams.open_source import open_source


def start_files(environment: StreamEnvironment, source: Source) -> FileStream:
    """Start the stream of ``source`` behind what progress says was read of its files.

    Raises SourceError, TableError, ResourceError, and ConflictError when another process writes to the tables.
    """
    spark, project, clock = environment.spark, environment.project, environment.clock
    progress = find_progress(project, source)
    read = progress.files_read() if progress else {}
    reader, committer = open_source(spark, project, source, _begun(read), clock)
    now = reader.source_tables.progress.files_read()
    if now != read:  # A process that was fenced out has committed in between.
        read = now
        reader, committer = open_source(spark, project, source, _begun(read), clock)
    reader.forget_other_topics([ARRIVALS])
    environment.takeover.watch(source, reader.source_tables.progress)
    arrivals = (Folder if source.files else DeltaTableCommits)(project, source, read, clock)
    return FileStream(
        spark, project, arrivals, reader, committer, environment.on_finished, clock, drain=environment.drain
    )


def _begun(read: Mapping[str, FileRead]) -> list[str]:
    """The topic ids of the files that were read in part."""
    return [one.topic_id for one in read.values() if not one.is_whole]
