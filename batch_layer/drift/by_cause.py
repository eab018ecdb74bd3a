"""The drift of some hours, split by cause: the stages that the values went through, compared in DuckDB."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import duckdb
import pyarrow as pa

from batch_layer.drift.stages_from_archive import Replay
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.differences import (
    Difference,
    Stage,
    compare_stages,
    make_stage,
    only_late_events,
    read_totals,
    without_late_events,
)
from hourline_core.sql.merge import counted_states_sql, stored_types


@dataclass
class HourDrift:
    """The drift of one measure in one recomputed hour.

    Values are over all dimensions; None where the measure is no number, or nothing was served.
    """

    hour: datetime
    measure: str
    at_close: float | None
    provisional: float | None
    final: float | None
    causes: list[dict[str, object]] = field(default_factory=list)
    """Each cause with its name (cause), the change (amount), and the number of groups that changed (cells)."""


class Drift:
    """Computes drift. ``connection`` has the snapshot attached, and the sketch functions; answers come from ``served``
    at ``sequence``.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        served: MetricTables,
        sequence: int,
        replay: Replay,
        *,
        is_decoded_anew: bool = False,
    ) -> None:
        """``is_decoded_anew``: today's declaration has decoded records that another one had decoded."""
        self._is_decoded_anew = is_decoded_anew
        self._connection, self._served, self._sequence, self._replay = connection, served, sequence, replay
        self._stored = stored_types(connection, served)

    def of(self, aggregation: AggregationPlan, fresh: pa.Table, hours: list[datetime]) -> list[HourDrift]:
        """The drift of ``hours``, which the tiles ``fresh`` are about to replace."""
        connection, served = self._connection, self._served
        late_of = self._read_served(hours)
        known = sorted(late_of)
        connection.register("_hours", pa.table({"hour": pa.array(known, pa.timestamp("us", tz="UTC"))}))
        counted = counted_states_sql(served, self._stored, self._sequence)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE _counted AS FROM ({counted}) SEMI JOIN _hours USING (hour)")
        # Hours are compared if the groups are other ones.
        with_lists = list(served.metric.dimensions) != list(aggregation.metric.dimensions)
        make = partial(make_stage, connection, metric=served.metric, stored=self._stored, with_lists=with_lists)
        provisional = make("provisional", states="FROM _counted")
        at_close = provisional
        late_events = f"SELECT 1 FROM ({only_late_events('FROM _counted', served)}) LIMIT 1"
        # They may be counted in final already.
        if late := any(late_of.values()) and connection.execute(late_events).fetchone():
            at_close = make("at_close", states=without_late_events("FROM _counted", served))
        final = self._tiles_stage("final", aggregation, fresh, with_lists)

        last, after = read_totals(connection, provisional), read_totals(connection, final)
        before = read_totals(connection, at_close) if late else last
        keys = [(hour, measure) for hour in hours for measure in aggregation.metric.measures]
        drift = {key: HourDrift(*key, before.get(key), last.get(key), after.get(key)) for key in keys}
        if late:
            _note(drift, compare_stages(connection, at_close, provisional), "late")
        differences = [change for change in compare_stages(connection, provisional, final) if change.hour in known]
        wrong = sorted({change.hour for change in differences if change.beyond_rounding})
        _note(drift, (change for change in differences if change.hour not in wrong), "unexplained")
        if wrong:
            self._explain(aggregation, provisional, final, wrong, drift, with_lists)
        return [drift[key] for key in sorted(drift)]

    def _explain(
        self,
        aggregation: AggregationPlan,
        provisional: Stage,
        final: Stage,
        hours: list[datetime],
        drift: dict[tuple[datetime, str], HourDrift],
        with_lists: bool,
    ) -> None:
        """Note why the final values of ``hours`` differ from the provisional ones."""
        replayed = self._replay(hours)
        expected = self._tiles_stage("expected", self._served, replayed.counted, with_lists)
        distinct = self._tiles_stage("distinct", self._served, replayed.first, with_lists)
        is_same = self._served.declaration == aggregation.declaration and not self._is_decoded_anew
        changed = "unexplained" if is_same else "declaration"
        left_out = "taken_back" if self._served.source.takes_back else "duplicate"
        for before, after, cause, looked_up in (
            (provisional, expected, "unexplained", replayed.forgotten),
            (expected, distinct, left_out, frozenset()),
            (distinct, final, changed, replayed.looked_up_anew if is_same else frozenset()),
        ):
            changes = compare_stages(self._connection, before, after, replayed.magnitudes)
            for change in changes:
                if change.hour in hours:
                    _note(drift, [change], "lookup" if change.hour in looked_up else cause)

    def _tiles_stage(
        self, name: str, declared: AggregationPlan | MetricTables, tiles: pa.Table, with_lists: bool
    ) -> Stage:
        """The stage of ``tiles``. Its groups are compared with those of the provisional stage."""
        self._connection.register(f"_{name}", tiles)
        stored = {column: kind for column, kind, *_ in self._connection.execute(f"DESCRIBE _{name}").fetchall()}
        return make_stage(
            self._connection,
            name,
            declared.metric,
            stored,
            f"FROM _{name}",
            compared="SEMI JOIN _hours USING (hour)",
            with_lists=with_lists,
        )

    def _read_served(self, hours: list[datetime]) -> dict[datetime, int]:
        """Those of ``hours`` that were served, each with its number of late events. The hours of a new metric were
        missing.
        """
        if not hours:
            return {}
        rows = self._connection.execute(
            f"SELECT hour, late FROM hourline.hours_{self._served.name} WHERE state <> 'missing' "
            "AND hour BETWEEN ? AND ?",  # of a year, only these become Python objects
            [min(hours), max(hours)],
        ).fetchall()
        wanted = set(hours)
        return {hour: late for hour, late in rows if hour in wanted}


def _note(drift: dict[tuple[datetime, str], HourDrift], observed: Iterable[Difference], cause: str) -> None:
    for change in observed:
        # A change by late events is theirs, however small it is.
        name = cause if change.beyond_rounding or cause == "late" else "rounding"
        if entry := drift.get((change.hour, change.measure)):
            entry.causes.append({"cause": name, "amount": change.amount, "cells": change.cells})
