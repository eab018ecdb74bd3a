"""What a query names is told by its tree: every name in it, and nothing that merely looks like one."""

import duckdb
import pytest

from hourline_core.sql.query_tree import find_names


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("FROM totals", {"totals"}),
        ('SELECT sum(n) FROM main."Totals" t WHERE t.n > 3', {"totals"}),
        ("SELECT n FROM odd JOIN (SELECT n FROM totals) USING (n)", {"odd", "totals"}),
        ("SELECT n, (SELECT max(n) FROM totals) FROM odd", {"odd", "totals"}),
        ("WITH t AS (FROM totals) FROM t UNION ALL FROM odd", {"t", "totals", "odd"}),
        ("DESCRIBE totals", {"totals"}),
        ("FROM hourline.hours_a JOIN hours USING (hour)", {"hourline.hours_a", "hours"}),
        ("SELECT 'FROM totals' AS totals -- FROM totals", set()),
        ("SELECT totals.n FROM odd AS totals", {"odd"}),
        ("FROM query('FROM ' || 'totals')", None),
        ("FROM query_table('totals')", None),
    ],
)
def test_tables_are_named_wherever_they_stand(query: str, names: set[str] | None) -> None:
    with duckdb.connect() as database:
        found = find_names(database, query)
        assert (None if found.may_be_any else found.tables) == names


def test_a_query_that_has_no_tree_may_name_any_table() -> None:
    with duckdb.connect() as database:
        assert find_names(database, "PIVOT totals ON n USING count(*)").may_be_any


@pytest.mark.parametrize("terms", [100, 400, 470, 490, 900])
def test_a_query_may_be_as_deep_as_duckdb_allows(terms: int) -> None:
    with duckdb.connect() as database:
        found = find_names(database, f"SELECT {' + '.join(['n'] * terms)} FROM totals")
        assert found.may_be_any or found.tables == {"totals"}
        assert not found.may_be_any or terms > 100


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("FROM totals", set()),
        ("WITH T AS (FROM totals) FROM t", {"t"}),
        ("FROM (WITH t AS (FROM totals) FROM t), odd", {"t"}),
        ("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) FROM t", {"t"}),
    ],
)
def test_the_expressions_of_a_query_are_known(query: str, names: set[str]) -> None:
    with duckdb.connect() as database:
        assert find_names(database, query).expressions == names
