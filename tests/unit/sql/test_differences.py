"""Two stages of a metric are compared, also where a measure has been declared anew with another type."""

import duckdb
import pytest

from hourline_core.model import Measure, Metric
from hourline_core.sql.differences import Stage, compare_stages

METRIC = Metric(name="m", source="s", measures={"x": Measure.parse("count")})


@pytest.mark.parametrize(
    ("before", "after", "amounts"),
    [
        ("'AA'", "3::BIGINT", [None]),
        ("true", "1::BIGINT", [None]),
        ("'3'", "3::BIGINT", []),
        ("2::INTEGER", "3::BIGINT", [1.0]),
        ("2.5::DOUBLE", "3::BIGINT", [0.5]),
    ],
)
def test_a_measure_of_another_type_has_changed_and_has_an_amount_only_as_a_number(
    before: str, after: str, amounts: list[float | None]
) -> None:
    connection = duckdb.connect()
    for name, value in (("before", before), ("after", after)):
        for table in ("cells", "totals"):
            connection.execute(
                f"CREATE TABLE {table}_{name} AS SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS hour, {value} AS x"
            )
    older, newer = (Stage(METRIC, f"cells_{name}", f"totals_{name}") for name in ("before", "after"))
    assert [difference.amount for difference in compare_stages(connection, older, newer)] == amounts


def entry(count: int, error: int, value: str = "a") -> str:
    return f"{{'value': '{value}', 'count': {count}::BIGINT, 'error': {error}::BIGINT}}"


@pytest.mark.parametrize(
    ("before", "after", "beyond_rounding"),
    [
        (entry(5, 0), entry(6, 0), True),
        (entry(5, 2), entry(6, 0), False),
        (entry(4, 1), entry(6, 0), True),
        (f"{entry(9, 1, 'b')}, {entry(5, 1)}", f"{entry(9, 1, 'b')}, {entry(7, 1)}", True),
        (entry(5, 1), entry(5, 1, "b"), False),
        (entry(5, 0), entry(5, 0, "b"), True),
    ],
)
def test_frequent_values_that_differ_within_their_told_errors_are_rounded(
    before: str, after: str, beyond_rounding: bool
) -> None:
    metric = Metric(name="m", source="s", measures={"x": Measure.parse("top(y, 10)")})
    connection = duckdb.connect()
    for name, value in (("before", before), ("after", after)):
        for table in ("cells", "totals"):
            connection.execute(
                f"CREATE TABLE {table}_{name} AS SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS hour, [{value}] AS x"
            )
    older, newer = (Stage(metric, f"cells_{name}", f"totals_{name}") for name in ("before", "after"))
    (difference,) = compare_stages(connection, older, newer)
    assert (difference.amount, difference.beyond_rounding) == (None, beyond_rounding)
