"""The hashes of ids tell ids apart."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.model.scratch_columns import HOUR, ID, ID_HASH
from speed_layer.intake.id_hashes import with_id_hash

START = datetime(2023, 11, 15, tzinfo=UTC)


def hashes(ids: list[Any], kind: pa.DataType, hours: list[datetime] | None = None) -> list[int | None]:
    moments = pa.array(hours or [START] * len(ids), pa.timestamp("us", "UTC"))
    return with_id_hash(pa.table({ID: pa.array(ids, kind), HOUR: moments}))[ID_HASH].to_pylist()  # type: ignore[no-any-return]


def test_ids_that_a_weak_hash_takes_for_each_other_have_different_ones() -> None:
    """DuckDB's ``hash`` of these is the same in this hour."""
    assert (
        len(set(hashes(["shop-0413/order-1700006414004-40834", "shop-0463/order-1700009114004-15834"], pa.string())))
        == 2
    )


def test_a_million_ids_of_one_pattern_have_a_hash_each() -> None:
    ids = [
        f"shop-{number * 7919 % 500:04d}/order-{1_700_000_000_000 + number * 7}-{number % 50_000:05d}"
        for number in range(1_000_000)
    ]
    assert len(set(hashes(ids, pa.string()))) == len(ids)


PAIR = pa.struct({"a": pa.int64(), "b": pa.int64()})


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (pa.string(), ["", "a", "a/", "A", "1"]),
        (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
        (pa.float64(), [0.0, 1.0, 1e300, -1.0]),
        (pa.binary(), [b"", b"\xaa", b"\xab", b"a"]),
        (pa.list_(pa.int64()), [[], [None], [None, None], [1, None], [None, 1]]),
        (PAIR, [{"a": 1, "b": None}, {"a": None, "b": 1}, {"a": None, "b": None}]),
    ],
)
def test_different_ids_and_hours_have_different_hashes(kind: pa.DataType, ids: list[Any]) -> None:
    hours = [START, START + timedelta(hours=1)]
    found = hashes(ids * 2, kind, [hour for hour in hours for _ in ids])
    assert None not in found
    assert len(set(found)) == 2 * len(ids)
    assert hashes(ids, kind) == found[: len(ids)]


def test_no_id_has_no_hash_and_zeros_are_equal() -> None:
    assert hashes([None, "a", None], pa.string())[::2] == [None, None]
    assert len(set(hashes([0.0, -0.0], pa.float64()))) == 1
