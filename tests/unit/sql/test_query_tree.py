"""What a query names is told by its tree: every name in it, and nothing that merely looks like one."""

import duckdb
import pytest

from hourline_core.sql.query_tree import named_tables


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("FROM totals", {"totals"}),
        ('SELECT sum(n) FROM main."Totals" t WHERE t.n > 3', {"totals"}),
        ("SELECT n FROM odd JOIN (SELECT n FROM totals) USING (n)", {"odd", "totals"}),
        ("SELECT n, (SELECT max(n) FROM totals) FROM odd", {"odd", "totals"}),
        ("WITH t AS (FROM totals) FROM t UNION ALL FROM odd", {"t", "totals", "odd"}),
        ("DESCRIBE totals", {"totals"}),
        ("SELECT 'FROM totals' AS totals -- FROM totals", set()),
        ("SELECT totals.n FROM odd AS totals", {"odd"}),
        ("FROM query('FROM ' || 'totals')", None),
        ("FROM query_table('totals')", None),
    ],
)
def test_tables_are_named_wherever_they_stand(query: str, names: set[str] | None) -> None:
    with duckdb.connect() as database:
        assert named_tables(database, query) == names


def test_a_query_that_has_no_tree_may_name_any_table() -> None:
    with duckdb.connect() as database:
        assert named_tables(database, "PIVOT totals ON n USING count(*)") is None
