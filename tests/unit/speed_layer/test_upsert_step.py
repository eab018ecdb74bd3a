"""What a micro-batch of an upsert reads."""

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hourline_core.model.decoding import TOMBSTONE
from speed_layer.derived.inputs import Input
from speed_layer.derived.spans import FIRST_HOUR
from speed_layer.tables.plan import ArchiveColumns
from speed_layer.upserts.derivation import UpsertDerivation
from speed_layer.upserts.plan import UpsertPlan
from speed_layer.upserts.step import UpsertFiles, plan_step
from tests.unit.speed_layer.test_snapshot_step import HOUR, MINUTE, TEN, rejected_records, rows_with

DAY = timedelta(days=1)


def plan_of(tables: Path, within: timedelta = 2 * HOUR) -> UpsertPlan:
    columns, rejected = ArchiveColumns("", {}, {}, {}), str(tables / "rejected")
    return UpsertPlan(
        "payments", columns, rejected, DAY, None, "string", ["record_key"], ["n"], "t", None, "revision", within
    )


def archive(tables: Path, hours: range) -> Input:
    """An event in each of these hours from ten o'clock on, with the sequences from 1 on, each in a file of its own."""
    for number, hour in enumerate(hours, 1):
        row = {"hour": [TEN + hour * HOUR], "sequence": [number]}
        write_deltalake(tables / "table", pa.table(row), mode="append")
    return Input(cast(Any, None), cast(Any, None), DeltaTable(tables / "table"))


def test_versions_within_twice_the_distance_are_read(tmp_path: Path) -> None:
    table = archive(tmp_path, range(-9, 1))
    step = plan_step(plan_of(tmp_path), table, None, rows_with(*[TEN] * 5)[4:], 9)
    assert (step.after, step.up_to) == (9, 10)
    assert (step.new.spans, len(step.new.slices)) == ([(TEN, TEN)], 1)
    assert step.earlier.spans == [(TEN - 4 * HOUR, TEN + 4 * HOUR)]
    assert len(step.earlier.slices) == 4, "those of the four hours before"


def test_a_tombstone_alone_is_a_reason_to_read_what_it_may_delete(tmp_path: Path) -> None:
    table = archive(tmp_path, range(-9, 1))
    rejected = rejected_records(
        tmp_path, (5, TEN - 8 * HOUR, TOMBSTONE), (11, TEN - 3 * HOUR + MINUTE, TOMBSTONE), (11, TEN, "0123456789ab")
    )
    [row] = rows_with(*[TEN] * 6)[5:]
    row.hours.clear()
    step = plan_step(plan_of(tmp_path), table, rejected, [row], 10)
    assert not step.new.slices
    assert step.earlier.spans == [(TEN - 7 * HOUR, TEN + HOUR)]
    assert step.first == TEN - 7 * HOUR
    assert len(step.tombstones) == 2, "all but that of eight hours before"


def test_nothing_new_reads_nothing(tmp_path: Path) -> None:
    table = archive(tmp_path, range(2))
    assert plan_step(plan_of(tmp_path), table, None, [], 5) == UpsertFiles(5, 5)
    [row] = rows_with(TEN)
    row.hours.clear()
    assert plan_step(plan_of(tmp_path), table, None, [row], 5) == UpsertFiles(5, 6)


def test_the_longest_distance_reaches_to_the_first_hour(tmp_path: Path) -> None:
    table = archive(tmp_path, range(1))
    step = plan_step(plan_of(tmp_path, 400_000 * DAY), table, None, rows_with(TEN), 0)
    assert step.earlier.spans[0][0] == FIRST_HOUR


def test_a_gap_of_the_table_reaches_as_far_as_versions_replace_each_other(tmp_path: Path) -> None:
    derivation = UpsertDerivation.__new__(UpsertDerivation)
    derivation._plan = plan_of(tmp_path)
    assert derivation.reach_of_gap(0) == (2 * HOUR, 2 * HOUR)
