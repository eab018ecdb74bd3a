"""The arguments of the classes of a project: which types are refused, and what the classes are given in Python."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from hourline_core.aggregates.base import UnsuitableArgumentError
from hourline_core.aggregates.python_values import in_utc, read_events
from hourline_core.aggregates.user_classes.arguments import arguments_of
from hourline_core.errors import MeasureError
from hourline_core.model import UserMeasure
from tests.support.user_classes import FOLDS, keyed_fold

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
def test_an_event_whose_date_python_does_not_have_is_named(beyond: pa.Array) -> None:
    measure = UserMeasure(kind="fold", name="trail", code=FOLDS["trail"])
    events = pa.StructArray.from_arrays([["t", "t"], [0, 1], [4, 5], beyond], ["topic", "partition", "offset", "_0"])
    with pytest.raises(MeasureError, match=r"for the event at t partition 1 offset 5 \(.* beyond the years 1 to 9999"):
        read_events(measure, "step", events, ["_0"])
