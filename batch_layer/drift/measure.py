"""Measures the drift of one metric in a publication: how much the numbers that readers see change."""

from functools import partial

import pyarrow as pa

from batch_layer.drift.by_cause import Drift, HourDrift
from batch_layer.drift.stages_from_archive import replay
from batch_layer.job import Job
from batch_layer.split_jobs import split_hours
from batch_layer.stage import StagedMetric
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import counted_states_sql, stored_types


def measure_drift(job: Job, passed: StagedMetric, promotes: bool) -> list[HourDrift]:
    """The drift of the hours in ``passed``, whose audits passed.

    A declaration that is not served yet has no drift, unless the publication ``promotes`` it. Then all its hours drift
    from what the older declaration served. Spark starts only to explain a difference.
    """
    aggregation, snapshot = passed.aggregation, job.snapshot
    served = next(tables for tables in snapshot.served if tables.metric.name == aggregation.metric.name)
    drift = Drift(
        job.database,
        served,
        passed.cutoff,
        partial(replay, job, served, passed.cutoff),
        is_decoded_anew=aggregation.source.name in job.changed,
    )
    if served.declaration != aggregation.declaration and not promotes:
        return []
    earlier = [] if served.declaration == aggregation.declaration else _measure_covered(job, passed, drift)
    return earlier + (drift.of(aggregation, passed.rows, passed.hours) if passed.hours else [])


def _measure_covered(job: Job, passed: StagedMetric, drift: Drift) -> list[HourDrift]:
    """The drift of the hours that earlier publications have covered, of a declaration that is promoted now."""
    aggregation, database = passed.aggregation, job.database
    newer = next(tables for tables in job.snapshot.metrics if tables.name == aggregation.name)
    columns = ", ".join(identifier(name) for name in aggregation.schema.names)
    states = counted_states_sql(newer, stored_types(database, newer), passed.cutoff)
    cutoffs = job.snapshot.coverage.of(aggregation.metric.name, aggregation.declaration).cutoffs()
    covered = sorted(cutoffs.keys() - set(passed.hours))
    measured: list[HourDrift] = []
    for chunk in split_hours(covered):
        database.register("_chunk", pa.table({"hour": pa.array(chunk, aggregation.schema.field("hour").type)}))
        fresh = database.execute(f"SELECT {columns} FROM ({states}) SEMI JOIN _chunk USING (hour)").to_arrow_table()
        measured += drift.of(aggregation, fresh, chunk)
    return measured
