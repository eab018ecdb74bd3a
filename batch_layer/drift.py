"""Drift: what people saw of an hour before it was recomputed, against what they see from then on, split by cause.

A value goes through stages, each computed by itself; what changes from one to the next has the cause in brackets:

    closed      what was served without the events that came after the hour had closed   [late]
    provisional  what was served last: both layers, merged at the cutoff                      [unexplained]
    expected     what should have been served: the archived events that had counted        [duplicate]
    distinct     the archived events, of each id the first                                 [declaration]
    final        what the recompute gives, by the metric as it is declared now

A change of doubles within 1e-9 of what was added up is called ``rounding``. The two stages in the middle cost a pass
over the events; they are computed for those hours only whose final value is another than the provisional one.
``unexplained`` is a fault: a tile that was lost, altered or counted twice. A declaration that is not served yet has no
drift, until it takes over; then all its hours have, at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import pyarrow as pa

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.differences import (
    Change,
    Stage,
    changes,
    make_stage,
    of_late_events,
    totals,
    without_late_events,
)
from hourline_core.sql.merge import counted_states_sql, stored_types


@dataclass(frozen=True)
class Replayed:
    """Some hours computed again from the archived events, by the declaration that was served."""

    counted: pa.Table
    """The tiles of the events that had counted."""
    first: pa.Table
    """The tiles of each id's first one."""
    magnitudes: dict[tuple[datetime, str], float]
    """By hour and measure, how large the added numbers are: sums of doubles are off by the order of addition, also
    where they cancel out.
    """


Replay = Callable[[list[datetime]], Replayed]


@dataclass
class HourDrift:
    """One measure of one recomputed hour; values are over all dimensions, None where it is no number or nothing was
    served.
    """

    hour: datetime
    measure: str
    at_close: float | None
    provisional: float | None
    final: float | None
    causes: list[dict[str, object]] = field(default_factory=list)
    """Each with its name (cause), by how much (amount), and in how many groups (cells)."""


class Drift:
    """Computes drift; ``connection`` has the snapshot attached and the sketch functions, ``served`` is what answers
    come from at ``sequence``.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, served: MetricTables, sequence: int, replay: Replay
    ) -> None:
        self._connection, self._served, self._sequence, self._replay = connection, served, sequence, replay
        self._stored = stored_types(connection, served)

    def of(self, aggregation: AggregationPlan, fresh: pa.Table, hours: list[datetime]) -> list[HourDrift]:
        """The drift of ``hours``, which the tiles ``fresh`` are about to replace."""
        connection, served = self._connection, self._served
        known = self._known(hours)
        connection.register("_hours", pa.table({"hour": pa.array(known, pa.timestamp("us", tz="UTC"))}))
        counted = counted_states_sql(served, self._stored, self._sequence)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE _counted AS FROM ({counted}) SEMI JOIN _hours USING (hour)")
        provisional = make_stage(connection, "provisional", served.metric, self._stored, "FROM _counted")
        at_close = provisional
        if late := connection.execute(f"SELECT 1 FROM ({of_late_events('FROM _counted', served)}) LIMIT 1").fetchone():
            at_close = make_stage(
                connection, "at_close", served.metric, self._stored, without_late_events("FROM _counted", served)
            )
        final = self._tiles_stage("final", aggregation, fresh)

        before, last, after = (totals(connection, stage) for stage in (at_close, provisional, final))
        keys = [(hour, measure) for hour in hours for measure in aggregation.metric.measures]
        found = {key: HourDrift(*key, before.get(key), last.get(key), after.get(key)) for key in keys}
        if late:
            _note(found, changes(connection, at_close, provisional), "late")
        differences = [change for change in changes(connection, provisional, final) if change.hour in known]
        wrong = sorted({change.hour for change in differences if change.beyond_rounding})
        _note(found, (change for change in differences if change.hour not in wrong), "unexplained")
        if wrong:
            self._explain(aggregation, provisional, final, wrong, found)
        return [found[key] for key in sorted(found)]

    def _explain(
        self,
        aggregation: AggregationPlan,
        provisional: Stage,
        final: Stage,
        hours: list[datetime],
        found: dict[tuple[datetime, str], HourDrift],
    ) -> None:
        """Note why the final values of ``hours`` are other than the provisional ones."""
        replayed = self._replay(hours)
        expected = self._tiles_stage("expected", self._served, replayed.counted)
        distinct = self._tiles_stage("distinct", self._served, replayed.first)
        changed = "unexplained" if self._served.declaration == aggregation.declaration else "declaration"
        for before, after, cause in (
            (provisional, expected, "unexplained"),
            (expected, distinct, "duplicate"),
            (distinct, final, changed),
        ):
            _note(
                found,
                (
                    change
                    for change in changes(self._connection, before, after, replayed.magnitudes)
                    if change.hour in hours
                ),
                cause,
            )

    def _tiles_stage(self, name: str, declared: AggregationPlan | MetricTables, tiles: pa.Table) -> Stage:
        self._connection.register(f"_{name}", tiles)
        stored = {column: kind for column, kind, *_ in self._connection.execute(f"DESCRIBE _{name}").fetchall()}
        return make_stage(self._connection, name, declared.metric, stored, f"FROM _{name}")

    def _known(self, hours: list[datetime]) -> list[datetime]:
        """Those of ``hours`` of which anything was served: those of a new metric were missing."""
        rows = self._connection.execute(
            "SELECT hour FROM hourline.metric_hours WHERE served AND metric = ? AND state <> 'missing'",
            [self._served.metric.name],
        ).fetchall()
        return sorted({hour for (hour,) in rows} & set(hours))


def _note(found: dict[tuple[datetime, str], HourDrift], what: Iterable[Change], cause: str) -> None:
    for change in what:
        # Whatever changes with the late events is their doing, however little it is.
        name = cause if change.beyond_rounding or cause == "late" else "rounding"
        if entry := found.get((change.hour, change.measure)):
            entry.causes.append({"cause": name, "amount": change.amount, "cells": change.cells})
