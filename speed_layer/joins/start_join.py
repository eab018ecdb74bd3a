"""Starts the stream of a joined source."""

from collections.abc import Sequence

from hourline_core.model import Source
from speed_layer.joins.inputs import open_inputs, refuse_other_inputs
from speed_layer.joins.plan import plan_join
from speed_layer.joins.stream import JoinedStream
from speed_layer.streams.environment import StreamEnvironment
from speed_layer.streams.open_source import open_source
from speed_layer.streams.stream import Stream


def start_join(environment: StreamEnvironment, source: Source, running: Sequence[Stream]) -> JoinedStream:
    """Start the stream of the joined ``source`` behind what progress says was read of its inputs, which have been
    started. ``running`` are the streams that run.

    Raises SourceError, DeclarationError, TableError, and ConflictError when another process writes to the tables.
    """
    spark, project = environment.spark, environment.project
    inputs = open_inputs(project, source)
    plan = plan_join(project, source, inputs)
    reader, committer = open_source(spark, project, source, [one.topic_id for one in inputs], environment.clock)
    tables = reader.source_tables
    environment.takeover.watch(source, tables.progress)
    refuse_other_inputs(source, tables.progress, inputs)
    names = {one.source.name for one in inputs}
    feeding = [stream for stream in running if stream.source in names]
    return JoinedStream(
        spark,
        project,
        plan,
        inputs,
        reader,
        committer,
        environment.on_finished,
        environment.clock,
        (lambda: any(stream.is_active() for stream in feeding)) if environment.drain else None,
    )
