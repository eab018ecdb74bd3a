"""Two stages of a metric are compared, also where a measure has been declared anew with another type."""

from datetime import UTC, datetime

import duckdb
import pytest

from hourline_core.model import Measure, Metric
from hourline_core.sql import differences
from hourline_core.sql.differences import Stage, compare_stages, make_stage
from hourline_core.sql.sketches import install_sketch_functions
from hourline_core.sql.types import column_types

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


def entry(count: int, error: int, value: str | None = "a") -> str:
    text = "NULL" if value is None else f"'{value}'"
    return f"{{'value': {text}::VARCHAR, 'count': {count}::BIGINT, 'error': {error}::BIGINT}}"


@pytest.mark.parametrize(
    ("before", "after", "beyond_rounding"),
    [
        (entry(5, 0), entry(6, 0), True),
        (entry(5, 2), entry(6, 0), False),
        (entry(4, 1), entry(6, 0), True),
        (f"{entry(9, 1, 'b')}, {entry(5, 1)}", f"{entry(9, 1, 'b')}, {entry(7, 1)}", True),
        (entry(5, 1), entry(5, 1, "b"), False),
        (entry(5, 0), entry(5, 0, "b"), True),
        (entry(0, 5, None), entry(5, 1, "b"), False),
        (entry(0, 4, None), entry(5, 1, "b"), True),
        (entry(5, 0), entry(0, 4, None), True),
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


@pytest.mark.parametrize(("with_lists", "expected"), [(True, [[("a", 2)], 3]), (False, [3])])
def test_a_stage_has_the_groups_that_are_compared_and_lists_of_hours_only_on_demand(
    with_lists: bool, expected: list[object]
) -> None:
    measures = {"pages": Measure.parse("top(page, 1)"), "n": Measure.parse("count")}
    metric = Metric(name="m", source="s", dimensions={"area": "area"}, measures=measures)
    connection = duckdb.connect()
    install_sketch_functions(connection)
    connection.execute(
        "CREATE TABLE tiles AS SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS hour, area, top_fold(page) AS pages, "
        "count(page) AS pages__n, count(*) AS n FROM (VALUES (1, 'a'), (1, 'b'), (2, 'a')) v(area, page) GROUP BY ALL"
    )
    types = column_types(connection, "tiles")
    stage = make_stage(
        connection, "made", metric, types, "FROM tiles", compared="WHERE area = 2", with_lists=with_lists
    )
    assert connection.execute(f"SELECT area, n, pages[1].value FROM {stage.cells}").fetchall() == [(2, 1, "a")]
    (found,) = connection.execute(f"SELECT * EXCLUDE (hour) FROM {stage.totals}").fetchall()
    lists = [[(one["value"], one["count"]) for one in value] if isinstance(value, list) else value for value in found]
    assert lists == expected


def test_many_sketches_are_merged_in_parts_of_whole_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle counts the events themselves. No part has more groups than are merged at once, about."""
    monkeypatch.setattr(differences, "MERGED_ROWS", 5)
    measures = {"people": "distinct(person)", "n": "count", "spent": "sum(ms)", "share": "ratio(spent, n)"}
    metric = Metric(
        name="m",
        source="s",
        dimensions={"area": "area", "kind": "kind"},
        measures={name: Measure.parse(text) for name, text in measures.items()},
    )
    connection = duckdb.connect()
    install_sketch_functions(connection)
    connection.execute(
        "CREATE TABLE events AS SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours((i % 2)::INTEGER) AS hour, "
        "nullif(i % 9, 0) AS area, if(i % 4 = 0, NULL, 'k') AS kind, i % 37 AS person, i AS ms FROM range(600) e(i)"
    )
    # Each group has two rows, as if two micro-batches had brought its events.
    connection.execute(
        "CREATE TABLE tiles AS SELECT hour, area, kind, distinct_fold(person) AS people, count(*) AS n, "
        "sum(ms)::HUGEINT AS spent FROM events GROUP BY hour, area, kind, ms < 300"
    )
    stage = make_stage(connection, "made", metric, column_types(connection, "tiles"), "FROM tiles")
    values = "count(DISTINCT person), count(*), sum(ms), sum(ms) / count(*)"
    for table, keys in ((stage.cells, "hour, area, kind"), (stage.totals, "hour")):
        made = connection.execute(f"FROM {table} ORDER BY ALL").fetchall()
        assert (
            made == connection.execute(f"SELECT {keys}, {values} FROM events GROUP BY {keys} ORDER BY ALL").fetchall()
        )
    assert connection.execute("SELECT count(*) FROM _merged_made").fetchall() > [(2,)], "several parts were merged"


@pytest.mark.parametrize(
    ("before", "after", "beyond"),
    [
        ((1.5e-17, 3), (-4e-17, 3), {"share": False}),  # what is left of 1e15 and -1e15
        ((1.5e-17, 3), (5e6, 3), {"total": True, "share": True}),
        ((0.0, 3), (1.5e-17, 3), {"total": False, "share": False}),
        ((2.0, 0), (2.0, 3), {"n": True, "share": True}),
        ((2.0, 3), (2.0, 4), {"n": True, "share": True}),
    ],
)
def test_a_ratio_has_changed_by_rounding_where_both_of_its_measures_have(
    before: tuple[float, int], after: tuple[float, int], beyond: dict[str, bool]
) -> None:
    measures = {"share": "ratio(total, n)", "total": "sum(x)", "n": "count"}
    metric = Metric(name="m", source="s", measures={name: Measure.parse(text) for name, text in measures.items()})
    connection = duckdb.connect()
    hour = datetime(2024, 1, 1, tzinfo=UTC)
    for name, (total, n) in (("before", before), ("after", after)):
        for table in ("cells", "totals"):
            connection.execute(
                f"CREATE TABLE {table}_{name} AS SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS hour, "
                f"{total!r}::DOUBLE AS total, {n}::BIGINT AS n, total / nullif(n, 0) AS share"
            )
    older, newer = (Stage(metric, f"cells_{name}", f"totals_{name}") for name in ("before", "after"))
    found = {
        one.measure: one.beyond_rounding for one in compare_stages(connection, older, newer, {(hour, "total"): 2e15})
    }
    assert {name: found[name] for name in beyond} == beyond
