"""Which snapshots a micro-batch takes and changes, and what it reads for that."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hourline_core.compute.derived_inputs import find_unfit_deletion
from hourline_core.ledger.layout import REJECTED_SCHEMA
from hourline_core.model import Project, load_project
from hourline_core.model.decoding import TOMBSTONE
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.snapshots.derivation import SnapshotDerivation
from speed_layer.snapshots.plan import SnapshotPlan
from speed_layer.snapshots.step import Times, find_times, plan_step
from speed_layer.tables.plan import ArchiveColumns
from tests.support.project_files import write_project

TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def plan_of(tables: Path, *, every: timedelta = HOUR, earliest: datetime | None = None) -> SnapshotPlan:
    columns = ArchiveColumns("", {}, {}, {})
    rejected = str(tables / "rejected")
    return SnapshotPlan(
        "orders", columns, rejected, timedelta(days=1), earliest, "string", ["record_key"], ["n"], "t", None, every
    )


def rejected_records(tables: Path, *records: tuple[int, datetime, str]) -> DeltaTable:
    """Rejected records, each with its sequence, time and decoding. Each one is in a file of its own."""
    for sequence, time, decoding in records:
        given = {"sequence": sequence, "timestamp": time, "arrived": TEN + 9 * HOUR, "decoding": decoding, "key": b"a"}
        row = {name: [given.get(name)] for name in REJECTED_SCHEMA.names}
        write_deltalake(tables / "rejected", pa.table(row, schema=REJECTED_SCHEMA), mode="append")
    return DeltaTable(tables / "rejected")


def rows_with(*hours: datetime) -> list[Any]:
    """Rows of progress with events of these hours, of the sequences from 6 on."""
    return [
        SimpleNamespace(sequence=number, hours=[SimpleNamespace(hour=hour, events=1)])
        for number, hour in enumerate(hours, 6)
    ]


@pytest.mark.parametrize(
    ("hours", "clocks", "every", "found"),
    [
        ([TEN], (None, TEN + 30 * MINUTE), HOUR, Times(None, TEN)),
        ([TEN], (TEN, TEN + 59 * MINUTE), HOUR, Times(TEN, TEN)),
        ([TEN], (TEN, TEN + HOUR), HOUR, Times(TEN, TEN + HOUR)),
        ([TEN, TEN - HOUR], (TEN, TEN + HOUR), HOUR, Times(TEN, TEN + HOUR, TEN - HOUR)),
        ([TEN - HOUR], (TEN, TEN), 6 * HOUR, Times(TEN - 4 * HOUR, TEN - 4 * HOUR)),
        ([TEN - 5 * HOUR], (TEN, TEN), 6 * HOUR, Times(TEN - 4 * HOUR, TEN - 4 * HOUR, TEN - 10 * HOUR)),
    ],
)
def test_snapshots_are_taken_when_the_clock_passes_them_and_changed_by_late_events(
    tmp_path: Path, hours: list[datetime], clocks: tuple[Any, Any], every: timedelta, found: Times
) -> None:
    plan = plan_of(tmp_path, every=every)
    assert find_times(plan, None, rows_with(*hours), 5, Passed(*clocks)) == found


def test_a_late_tombstone_changes_snapshots_if_it_is_new_and_an_event_of_its_time_may_be_there(tmp_path: Path) -> None:
    late, old = TEN - 3 * HOUR + MINUTE, datetime(1971, 1, 1, tzinfo=UTC)
    rejected = rejected_records(
        tmp_path,
        (5, TEN - 7 * HOUR, TOMBSTONE),
        (6, late, TOMBSTONE),
        (6, TEN - 5 * HOUR, "0123456789ab"),
        (6, old, TOMBSTONE),
        (8, TEN - 6 * HOUR, TOMBSTONE),
    )
    rows, passed = rows_with(TEN, TEN), Passed(TEN, TEN)
    plan = plan_of(tmp_path, earliest=datetime(2026, 1, 1, tzinfo=UTC))
    assert find_times(plan, rejected, rows, 5, passed).changed_after == TEN - 3 * HOUR
    assert find_times(plan_of(tmp_path), rejected, rows, 5, passed).changed_after == old


def test_the_files_of_the_hours_and_of_the_snapshots_before_them_are_read(tmp_path: Path) -> None:
    rejected = rejected_records(tmp_path, (1, TEN - 4 * HOUR, TOMBSTONE), (2, TEN + MINUTE, TOMBSTONE))
    for name, hours in (("table", range(-4, 2)), ("snapshots", range(-4, 0))):
        for number, hour in enumerate(hours, 1):
            row = {"hour": [TEN + hour * HOUR], "sequence": [number]}
            write_deltalake(tmp_path / name, pa.table(row), mode="append")
    table = Input(cast(Any, None), cast(Any, None), DeltaTable(tmp_path / "table"))
    earlier = DeltaTable(tmp_path / "snapshots")
    times = Times(TEN, TEN + HOUR, TEN - 2 * HOUR)
    step = plan_step(plan_of(tmp_path), table, rejected, earlier, times, (4, 5))
    assert (step.first, step.after, step.up_to) == (TEN - 2 * HOUR, 4, 5)
    assert step.table.spans == [(TEN - 2 * HOUR, TEN)], "all hours up to the snapshot of eleven"
    assert len(step.table.slices) == 3, "one of them has a later hour, and three have earlier ones"
    assert step.snapshots.spans == [(TEN - 3 * HOUR, TEN - 3 * HOUR), (TEN - HOUR, TEN - HOUR)]
    assert len(step.snapshots.slices) == 2
    assert len(step.tombstones) == 1


def test_a_gap_of_the_table_reaches_to_the_end_of_time() -> None:
    earlier, later = SnapshotDerivation.__new__(SnapshotDerivation).reach_of_gap(0)
    assert earlier == timedelta(0)
    assert timedelta(days=365 * 8000) < later


def declared(folder: Path, deleted: str) -> Project:
    files = {
        "hourline.yaml": "",
        "sources/orders.yaml": "topic: o\nkey_type: string\nfields: {status: string, n: int, at: timestamp}\n"
        "event_time: at\n",
        "sources/rows.yaml": f"snapshot: {{of: orders, columns: status, deleted: {deleted!r}}}\n",
    }
    return load_project(write_project(folder, files))


@pytest.mark.parametrize(
    ("deleted", "said"),
    [
        ("status", "got 'status', which is of type string, allowed is a condition"),
        ("n", "got 'n', which is of type int, allowed is a condition"),
        (
            "n > 3 AND stauts = 'x'",
            "got \"n > 3 AND stauts = 'x'\", in which 'stauts' is no field of source 'orders' — did you mean 'status'?",
        ),
        ("md5(status) = 'x'", "got \"md5(status) = 'x'\", allowed are fields of 'orders', comparisons, arithmetic"),
    ],
)
def test_what_is_no_condition_that_tasks_compute_deletes_no_row(tmp_path: Path, deleted: str, said: str) -> None:
    project = declared(tmp_path, deleted)
    assert said in (find_unfit_deletion(project.sources["rows"]) or "")
    assert find_unfit_deletion(declared(tmp_path / "fit", "status = 'x' OR n > 3").sources["rows"]) is None
