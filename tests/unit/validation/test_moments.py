"""Event times of each type become moments, whatever their values are."""

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hourline_core.model import EventTime
from hourline_core.validation.moments import moments_of


def micros(values: list[Any], kind: pa.DataType, encoding: str, zone: str | None = None) -> list[int | None]:
    time = EventTime.model_validate({"expression": "x", "encoding": encoding, "zone": zone})
    found: list[int | None] = moments_of(pa.array(values, kind), time).cast(pa.int64()).to_pylist()
    return found


@pytest.mark.parametrize(("precision", "scale"), [(38, 38), (38, 37), (38, 20), (38, 9), (38, 0), (5, 5), (1, 0)])
def test_a_decimal_of_any_precision_is_exact(precision: int, scale: int) -> None:
    nines = (9,) * precision
    values = [Decimal((sign, digits, -scale)) for digits in ((1,), nines) for sign in (0, 1)]
    want = [
        None if abs(value) >= 250_000_000_000 else int((value * 1_000_000).__floor__()) for value in exact_of(values)
    ]
    assert micros([None, *values], pa.decimal128(precision, scale), "epoch_seconds") == [None, *want]


def exact_of(values: list[Decimal]) -> list[Any]:
    return [Fraction(value) for value in values]


def test_a_double_that_is_no_time_has_no_moment() -> None:
    none = [float("nan"), float("inf"), -float("inf"), 1e308, 2.5e11, -2.5e11]
    assert micros(none, pa.float64(), "epoch_seconds") == [None] * len(none)
    assert micros([5e-324, -5e-324, -0.0, 1700000000.1234567], pa.float64(), "epoch_seconds") == [
        0,
        -1,
        0,
        1_700_000_000_123_456,
    ]


@given(st.lists(st.floats(2.0**30, 2.4e11) | st.floats(-2.4e11, 2.4e11).map(lambda number: round(number, 5))))
@example([10_000_000_000 + tenths / 10 for tenths in range(1000)])
def test_a_double_stands_for_the_shortest_number_that_it_is_nearest_to(numbers: list[float]) -> None:
    want = [int(Fraction(repr(number)) * 1_000_000 // 1) for number in numbers]
    assert micros(numbers, pa.float64(), "epoch_seconds") == want


def test_a_local_time_of_any_year_is_read() -> None:
    # Spark has such times, and Python has not.
    beyond = 2**62
    (late, early) = micros([beyond, -beyond], pa.timestamp("us"), "local", "Asia/Kolkata")
    assert late is not None
    assert early is not None
    assert late == beyond - 19_800_000_000
    assert -beyond - early == 21_208_000_000  # local mean time


def test_a_local_time_that_is_skipped_moves_forward_and_of_two_the_earlier_is_meant() -> None:
    gap, overlap = datetime(2025, 3, 30, 2, 30), datetime(2025, 10, 26, 2, 30)  # noqa: DTZ001 (local times)
    found = micros([gap, overlap], pa.timestamp("us"), "local", "Europe/Berlin")
    in_utc = [datetime(2025, 3, 30, 1, 30), datetime(2025, 10, 26, 0, 30)]  # noqa: DTZ001
    assert found == [int((time - datetime(1970, 1, 1)).total_seconds()) * 1_000_000 for time in in_utc]  # noqa: DTZ001
