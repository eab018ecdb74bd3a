"""Starts the stream of a derived source."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession

from hourline_core.model import Project, Source
from speed_layer.derived.inputs import Input, open_inputs, refuse_other_inputs
from speed_layer.derived.stream import Derivation, DerivedStream
from speed_layer.joins.derivation import JoinDerivation
from speed_layer.snapshots.derivation import SnapshotDerivation
from speed_layer.streams.environment import StreamEnvironment
from speed_layer.streams.open_source import open_source
from speed_layer.streams.stream import Stream
from speed_layer.upserts.derivation import UpsertDerivation

_DERIVATIONS: Mapping[str, Callable[[SparkSession, Project, Source, Sequence[Input]], Derivation]] = {
    "join": JoinDerivation,
    "snapshot": SnapshotDerivation,
    "upsert": UpsertDerivation,
}
"""How the events of a source are made, by the key that says so."""


def start_derived(environment: StreamEnvironment, source: Source, running: Sequence[Stream]) -> DerivedStream:
    """Start the stream of the derived ``source`` behind what progress says was read of its inputs, which have been
    started. ``running`` are the streams that run.

    Raises SourceError, DeclarationError, TableError, and ConflictError when another process writes to the tables.
    """
    spark, project = environment.spark, environment.project
    inputs = open_inputs(project, source)
    derivation = _DERIVATIONS[source.derivation](spark, project, source, inputs)
    reader, committer = open_source(spark, project, source, [one.topic_id for one in inputs], environment.clock)
    tables = reader.source_tables
    environment.takeover.watch(source, tables.progress)
    refuse_other_inputs(source, tables.progress, inputs)
    names = {one.source.name for one in inputs}
    feeding = [stream for stream in running if stream.source in names]
    return DerivedStream(
        spark,
        project,
        derivation,
        reader,
        committer,
        environment.on_finished,
        environment.clock,
        (lambda: any(stream.is_active() for stream in feeding)) if environment.drain else None,
    )
