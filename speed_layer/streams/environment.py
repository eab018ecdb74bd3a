"""What the streams of a speed layer share."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hourline_core.model import Project
from hourline_core.model.hours import Clock
from speed_layer.commit.committer import Finished
from speed_layer.recovery.takeover import TakeoverCheck


@dataclass(frozen=True)
class StreamEnvironment:
    """What the streams of a speed layer share."""

    spark: SparkSession
    project: Project
    bootstrap: str
    drain: bool
    """Whether they end when all that was in the topics at the start has been processed."""
    clock: Clock
    """The wall's (UTC). It only dates the micro-batches."""
    on_finished: Callable[[Finished], None]
    """Called after each micro-batch."""
    takeover: TakeoverCheck
    """A start lets it watch the progress that it opens."""
