"""Rows of a metric are compared with those that a test expects, by the types of its columns."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hourline import load_project
from hourline.metric_tests.expected_rows import ExpectedRows
from hourline_core.errors import DeclarationError
from hourline_core.model.loaded_tests import load_tests
from tests.support.project_files import write_project

HOUR = datetime(2026, 3, 2, 8, tzinfo=UTC)
TYPES = {
    "whole": pa.int64(),
    "exact": pa.decimal128(20, 2),
    "near": pa.float64(),
    "yes": pa.bool_(),
    "moment": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "frequent": pa.list_(pa.struct({"value": pa.string(), "count": pa.int64()})),
    "raw": pa.binary(),
}
SCHEMA = pa.schema({"hour": pa.timestamp("us", "UTC"), "page": pa.string(), **TYPES, "state": pa.string()})


def expected(folder: Path, *rows: str, more: str = "") -> ExpectedRows:
    measures = "\n".join(f"  {name}: count" for name in TYPES)
    write_project(
        folder,
        {
            "hourline.yaml": "",
            "sources/s.yaml": "topic: t\nfields: {at: string, page: string}\nevent_time: at\n",
        },
    )
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics" / "m.yaml").write_text(f"source: s\ndimensions: [page]\nmeasures:\n{measures}\n")
    listed = "\n".join(f"    - {row}" for row in rows)
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "t.yaml").write_text(f"given: [x]\n{more}expect:\n  m:\n{listed}\n")
    (test,) = load_tests(load_project(folder, {}), {})
    return ExpectedRows(test, test.metrics["m"], SCHEMA)


def found(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"hour": HOUR, "page": None, "state": "final", **row} for row in rows], SCHEMA)


ALL = {
    "whole": 3,
    "exact": Decimal("1.50"),
    "near": 0.1 + 0.2,
    "yes": True,
    "moment": datetime(2026, 3, 2, 8, 1, tzinfo=UTC),
    "day": date(2026, 3, 2),
    "frequent": [{"value": "a", "count": 2}],
}
IN_YAML = (
    "{hour: 2026-03-02T08, page: null, whole: 3, exact: 1.5, near: 0.3, yes: true, moment: 2026-03-02T08:01Z, "
    "day: 2026-03-02, frequent: [{value: a, count: 2}], state: final}"
)


def test_values_are_compared_by_the_types_of_their_columns(tmp_path: Path) -> None:
    assert expected(tmp_path, IN_YAML).difference(found(ALL), states=True) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("whole", 4),
        ("whole", None),
        ("exact", Decimal("1.51")),
        ("near", 0.3001),
        ("near", float("nan")),
        ("yes", False),
        ("day", date(2026, 3, 3)),
        ("frequent", [{"value": "a", "count": 3}]),
        ("frequent", []),
        ("state", "revised"),
    ],
)
def test_one_other_value_is_a_difference(tmp_path: Path, name: str, value: object) -> None:
    difference = expected(tmp_path, IN_YAML).difference(found({**ALL, name: value}), states=True)
    assert difference is not None
    assert [row[2] for row in difference.rows] == [name]
    assert difference.columns == ("hour", "page", "column", "expected", "found")


def test_states_are_compared_only_if_asked(tmp_path: Path) -> None:
    assert expected(tmp_path, IN_YAML).difference(found({**ALL, "state": "revised"}), states=False) is None


def test_a_row_that_is_missing_or_not_expected_is_a_difference(tmp_path: Path) -> None:
    rows = expected(tmp_path, "{hour: 2026-03-02T08, page: a, whole: 1}", "{hour: 2026-03-02T08, page: b}")
    difference = rows.difference(found({"page": "b"}, {"page": None, "whole": 2}), states=True)
    assert difference is not None
    assert [(row[1], row[3]) for row in difference.rows] == [
        (None, "no row"),
        ("a", "whole 1"),
    ]


def test_a_partial_test_takes_other_hours_as_they_are(tmp_path: Path) -> None:
    other = {"hour": datetime(2026, 3, 2, 9, tzinfo=UTC), "page": "x"}
    row = "{hour: 2026-03-02T08, page: null}"
    assert expected(tmp_path, row, more="partial: true\n").difference(found({}, other), states=True) is None
    assert expected(tmp_path, row).difference(found({}, other), states=True) is not None
    same_hour = {"page": "x"}
    assert expected(tmp_path, row, more="partial: true\n").difference(found({}, same_hour), states=True) is not None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("whole: 1.0", "whole: got '1.0', allowed is a whole number"),
        ('whole: "1"', 'whole: got "1" in quotes, which is text, allowed is a whole number without quotes'),
        ("whole: [1]", "whole: got a list, allowed is a whole number"),
        ("exact: 1,5", "exact: got '1,5', allowed is a number"),
        ("near: much", "near: got 'much', allowed is a number"),
        ("yes: 1", "yes: got '1', allowed is true or false"),
        ("moment: noon", "moment: got 'noon', allowed is a time such as 2026-03-02T08:00Z"),
        ("day: 2026-3-2", "day: got '2026-3-2', allowed is a date such as 2026-03-02"),
        ("frequent: a", "frequent: got 'a', allowed is a list"),
        ("frequent: [{name: a}]", "frequent: got a mapping, allowed is a mapping of value, count"),
        ("raw: a", "raw: got 'a', allowed is null, as values of type binary cannot be written here"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_line(tmp_path: Path, value: str, said: str) -> None:
    row = f"hour: 2026-03-02T08\n      page: a\n      {value.replace('1,5', chr(39) + '1,5' + chr(39))}"
    with pytest.raises(DeclarationError) as caught:
        expected(tmp_path, row)
    assert str(caught.value) == f"tests/t.yaml:6: expect.m.0.{said}"
