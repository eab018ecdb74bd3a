"""What a micro-batch of a join reads if an input has only taken an event back."""

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hourline_core.ledger.progress_rows import ProgressRow, RecordCounts, TakenBack
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.joins.plan import JoinPlan, SidePlan
from speed_layer.joins.step import plan_step
from tests.unit.speed_layer.test_snapshot_step import HOUR, TEN


def test_its_hour_has_new_rows_and_partners_near_it(tmp_path: Path) -> None:
    side = SidePlan("a", "a", "", {}, {}, {}, {}, ["k"], None, None, {}, id_taken_back="row")
    plan = JoinPlan((side, side), [], HOUR, timedelta(0))
    inputs = []
    for name in "lr":
        for number, hour in enumerate(range(-3, 3), 1):
            row = {"hour": [TEN + hour * HOUR], "sequence": [number]}
            write_deltalake(tmp_path / name, pa.table(row), mode="append")
        inputs.append(Input(cast(Any, None), cast(Any, None), DeltaTable(tmp_path / name)))
    back = ProgressRow(
        4, "id", "a", (), RecordCounts(), (), (), TEN, TEN, TEN, taken_back=(TakenBack(TEN, 1),)
    )  # fmt: skip
    left, right = plan_step(plan, inputs, [[back], []], [3, 6], Passed())
    assert (left.up_to, left.new.spans, len(left.new.slices)) == (4, [(TEN, TEN)], 1)
    assert right.near.spans == [(TEN - HOUR, TEN)]
    assert len(right.near.slices) == 2


def test_of_both_outer_sides_all_partners_are_read_in_whatever_hours_they_are(tmp_path: Path) -> None:
    """A partner that is gone is counted, too, so it must be held."""
    side = SidePlan("a", "a", "", {}, {}, {}, {}, ["k"], None, None, {}, id_taken_back="row")
    plan = JoinPlan((side, side), [], HOUR, 2 * HOUR, (True, True))
    inputs = []
    for name in "lr":
        row = {"hour": [TEN + hour * HOUR for hour in range(-8, 8)], "sequence": [1] * 16}
        write_deltalake(tmp_path / name, pa.table(row))
        inputs.append(Input(cast(Any, None), cast(Any, None), DeltaTable(tmp_path / name)))
    back = ProgressRow(
        2, "id", "a", (), RecordCounts(), (), (), TEN, TEN, TEN, taken_back=(TakenBack(TEN, 1),)
    )  # fmt: skip
    passed = Passed(TEN + 9 * HOUR, TEN + 9 * HOUR)
    left, right = plan_step(plan, inputs, [[back], []], [1, 1], passed)
    assert (left.new.spans, left.near.spans) == ([(TEN, TEN)], [])
    assert right.near.spans == [(TEN - HOUR, TEN + 2 * HOUR)]
    assert left.far.spans == [(TEN - 3 * HOUR, TEN + 3 * HOUR)]
