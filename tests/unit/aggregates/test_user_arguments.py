"""The arguments of the classes of a project: which types are refused, and what the classes are given in Python."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from hourline_core.aggregates.base import UnsuitableArgumentError
from hourline_core.aggregates.python_values import UnreadableValueError, in_utc, read_events
from hourline_core.aggregates.user_classes.arguments import arguments_of
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.model import UserMeasure
from tests.support.user_classes import CLASSES, keyed_fold

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN = pa.timestamp("us", "Europe/Berlin")


def test_a_field_may_have_the_name_of_a_type_that_is_refused() -> None:
    trail = keyed_fold("trail", "x")
    assert arguments_of(trail, "struct<variant:string,interval:struct<void:int,time:timestamp>>")
    for refused in (
        "void",
        "variant",
        "interval",
        "interval day to second",
        "array<variant>",
        "map<int,time(6)>",
        "struct<a:void,b:int>",
    ):
        with pytest.raises(UnsuitableArgumentError, match="cast it to another type"):
            arguments_of(trail, f"struct<x:{refused}>")


@pytest.mark.parametrize(
    ("value", "of"),
    [
        (NOON, BERLIN),
        ([{"at": NOON, "n": 1}, None], pa.list_(pa.struct({"at": BERLIN, "n": pa.int8()}))),
        ([("k", [NOON])], pa.map_(pa.string(), pa.list_(BERLIN))),
    ],
)
def test_times_are_in_utc_whatever_the_zone_of_the_connection(value: object, of: pa.DataType) -> None:
    (found, missing) = in_utc(pa.array([value, None], of)).to_pylist()
    assert (found, missing) == (value, None)
    assert "Berlin" not in repr(found)


@pytest.mark.parametrize(
    "beyond", [pa.array([3000, 10_000_000], pa.date32()), pa.array([0, 2**62], pa.timestamp("us"))]
)
def test_only_the_event_whose_date_python_does_not_have_is_blamed(beyond: pa.Array) -> None:
    with pytest.raises(UnreadableValueError, match="beyond the years 1 to 9999"):
        read_events([beyond])
    counts_all = CLASSES["spread"].replace("def add(self, state, x):", "def add(self, state, x):\n        x = 1")
    good, bad = load_class(UserMeasure(name="spread", code=counts_all)).blame_events([beyond])
    assert good is None
    assert bad is not None and "a date or time beyond the years 1 to 9999, which Python does not have" in bad
