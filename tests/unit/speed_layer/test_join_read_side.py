"""What a task reads of the archive of an input whose declaration has changed."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hourline_core.ledger.decode_records import ARCHIVED
from hourline_core.model.scratch_columns import DECODING, HOUR, SEQUENCE
from hourline_core.storage.file_slices import FileSlice
from speed_layer.derived import read_events
from speed_layer.derived.decoding import DecodedAnew
from speed_layer.joins.plan import SidePlan
from speed_layer.joins.read_side import ArchivedSide

AT = datetime(2026, 3, 2, 10, tzinfo=UTC)


class RejectsTheSecond:
    """A decoder that rejects the second record, and takes the amounts of the others for 9."""

    def __init__(self, *of: Any) -> None:
        pass

    def of_events(self, rows: pa.Table, *of: Any) -> pa.Table:
        hours = [None if number == 2 else AT for number in rows["sequence"].to_pylist()]
        return pa.table(
            {"hour": pa.array(hours, rows["hour"].type), "sequence": rows["sequence"], "amount": [9] * len(rows)}
        )


@pytest.mark.parametrize(("kept_up_to", "amounts"), [(1, {1: 9, 3: 9, 4: 7}), (2, {1: 9, 2: 7, 3: 9, 4: 7})])
def test_an_event_that_is_rejected_now_stays_a_partner_where_it_was_one(
    kept_up_to: int, amounts: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_events, "RecordDecoder", RejectsTheSecond)
    monkeypatch.setattr(
        read_events, "archived_names", lambda *of: {HOUR: "hour", SEQUENCE: "sequence", "amount": "amount"}
    )
    rows = {name: pa.nulls(4, ARCHIVED.field(name).type) for name in ARCHIVED.names}
    rows |= {"hour": pa.array([AT] * 4, ARCHIVED.field("hour").type), "sequence": pa.array(range(1, 5), pa.int64())}
    rows |= {DECODING: pa.array(["before"] * 3 + ["now"]), "amount": pa.array([7] * 4, pa.int64())}
    pq.write_table(pa.table(rows), tmp_path / "f.parquet")
    columns = {HOUR: "hour", SEQUENCE: "sequence", "amount": "amount"}
    types = {HOUR: ARCHIVED.field("hour").type, SEQUENCE: pa.int64(), "amount": pa.int64()}
    anew = DecodedAnew(cast(Any, None), cast(Any, [SimpleNamespace(hash="before")]), 9, kept_up_to)
    plan = SidePlan("a", "a", str(tmp_path), {}, columns, {}, types, ["amount"], None, None, {}, anew)
    files = SimpleNamespace(slices=[FileSlice("f.parquet", 0, 4)], old={"f.parquet"}, spans=[(AT, AT)])
    side = ArchivedSide(plan, cast(Any, SimpleNamespace(far=files, after=9)))
    found = pa.concat_tables(side.far())
    assert dict(zip(found[SEQUENCE].to_pylist(), found["amount"].to_pylist(), strict=True)) == amounts
