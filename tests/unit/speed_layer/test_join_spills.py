"""Joins of more events than the memory of a task holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hourline_core.model.join import JOINED_ROW, UNMATCHED
from hourline_core.model.scratch_columns import EVENT_TIME, HOUR, SEQUENCE
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.joins.difference import DifferenceJoiner
from speed_layer.joins.join_rows import Joiner
from speed_layer.joins.plan import JoinPlan, SidePlan
from tests.unit.speed_layer.test_join_rows import COLUMNS

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
EVENTS, AT_ONCE = 200_000, 20_000


@dataclass
class Held:
    """Events with the numbers from ``first`` on as keys, of one sequence, as a ``Side``."""

    first: int
    sequence: int

    def new(self) -> Iterator[pa.Table]:
        return self._tables() if self.sequence == 2 else iter(())

    def near(self) -> Iterator[pa.Table]:
        return self._tables() if self.sequence == 1 else iter(())

    def far(self) -> Iterator[pa.Table]:
        return self.near()

    def identities(self) -> Iterator[pa.Table]:
        return iter(())

    def _tables(self) -> Iterator[pa.Table]:
        for first in range(self.first, self.first + EVENTS, AT_ONCE):
            numbers = np.arange(first, first + AT_ONCE)
            values: dict[str, Any] = {
                **dict.fromkeys(COLUMNS, np.zeros(AT_ONCE, np.int64)),
                SEQUENCE: np.full(AT_ONCE, self.sequence),
                EVENT_TIME: [BEGIN] * AT_ONCE,
                HOUR: [BEGIN] * AT_ONCE,
                ADDRESS[0]: ["topic"] * AT_ONCE,
                ADDRESS[2]: numbers,
                "k": numbers,
                "i": [f"the text of the event {number:09d}" for number in numbers],
            }
            yield pa.table({name: pa.array(values[name]).cast(of) for name, of in COLUMNS.items()})


def side(name: str, *, taken_back: bool) -> SidePlan:
    columns = {column: column for column in COLUMNS}
    fields = {f"{name}_k": "k", f"{name}_i": "i"}
    return SidePlan(name, name, "", {}, columns, columns, COLUMNS, ["k"], None, None, fields, None, '"i"' if taken_back else None)  # fmt: skip


@pytest.mark.parametrize("taken_back", [False, True])
def test_what_does_not_fit_into_memory_is_joined_from_files(tmp_path: Path, taken_back: bool) -> None:
    """Half of the events of each side have a partner. DuckDB has 72 MB for them and for what it makes of them."""
    fields = ["l_k", "l_i", "r_k", "r_i", *([JOINED_ROW] if taken_back else []), UNMATCHED]
    plan = JoinPlan(
        (side("l", taken_back=taken_back), side("r", taken_back=False)), fields, DAY, DAY, outer=(True, False)
    )
    connection = duckdb.connect(config={"threads": 1, "temp_directory": str(tmp_path), "memory_limit": "72MB"})
    connection.execute("SET TimeZone = 'UTC'")
    joiner = DifferenceJoiner(connection, plan, (1, 1)) if taken_back else Joiner(connection, plan)
    joined = joiner.join(Held(EVENTS // 2, 2), Held(0, 1), Passed(None, BEGIN + DAY))
    found: list[tuple[int, int | None]] = []
    spilled = False
    for rows in (*joined.pairs, *joined.changes):
        right = rows["r_k"].to_pylist() if "r_k" in rows.column_names else [None] * len(rows)
        spilled = spilled or any(tmp_path.iterdir())
        found += zip(rows["l_k"].to_pylist(), right, strict=True)
    assert spilled, "all of it was in memory"
    both = range(EVENTS // 2, EVENTS)
    alone = range(EVENTS, EVENTS // 2 + EVENTS)
    assert sorted(found) == [*((number, number) for number in both), *((number, None) for number in alone)]
