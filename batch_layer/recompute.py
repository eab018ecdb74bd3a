"""Recompute hours from the archived events, as many in one job as the settings say; between two jobs others have their
turn.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from batch_layer.plan import PlannedHour, already_published
from hourline_core.compute.aggregation import explain
from hourline_core.compute.check import refuse_unresolved
from hourline_core.errors import SparkError
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.lease import turn
from hourline_core.runtime.spark import spark_session

if TYPE_CHECKING:
    from batch_layer.job import Recomputed

_BRIEF = 1_000_000
"""So few events, of all metrics together, are counted sooner by code that Java has not compiled for long."""


def recompute(
    project: Project,
    wanted: list[PlannedHour],
    clock: Clock = wall_clock,
    *,
    hours_per_job: int | None = None,
    on_waiting: Callable[[int], None] = lambda process: None,
    on_left_out: Callable[[list[PlannedHour]], None] = lambda left_out: None,
    on_published: Callable[["Recomputed"], None] = lambda done: None,
) -> list["Recomputed"]:
    """Recompute and publish ``wanted``, ``hours_per_job`` in one job, or as many as the settings say.

    The lease is given up between two jobs, to whoever has been waiting for it longest; ``on_waiting`` is told whom this
    one waits for. What somebody else has published meanwhile is left out, and ``on_left_out`` is told. Running it again
    changes no answer. ``clock`` dates the publication (UTC). Raises DeclarationError, ConflictError (another process,
    on another workspace, has published to the same tables meanwhile), TableError; what was published before stays
    published.
    """
    spark: SparkSession | None = None
    done = []
    try:
        for planned in _jobs(wanted, hours_per_job or project.settings.batch.hours_per_job):
            with turn(project.workspace, "batch", on_waiting):
                left_out = already_published(project, planned, clock)
                if left_out:
                    on_left_out(left_out)
                job = [item for item in planned if item not in left_out]
                if not job:
                    continue
                if spark is None:  # not while waiting: there may be nothing left to do for it
                    # Great Expectations takes seconds to import: meanwhile Spark starts.
                    Thread(target=import_module, args=("batch_layer.job",), daemon=True).start()
                    spark = spark_session(project, "batch", brief=sum(item.events for item in wanted) < _BRIEF)
                    refuse_unresolved(spark, project)
                from batch_layer.job import run_job

                done.append(run_job(spark, project, job, clock))
            on_published(done[-1])
        return done
    except PySparkException as error:
        raise SparkError(f"Spark could not recompute: {explain(error)}") from error
    finally:
        if spark is not None:
            spark.stop()


def _jobs(wanted: list[PlannedHour], most: int) -> Iterator[list[PlannedHour]]:
    hours = sorted({item.hour for item in wanted})
    for first in range(0, len(hours), most):
        chosen = set(hours[first : first + most])
        yield [item for item in wanted if item.hour in chosen]
