"""A mistake in a statement names the part, and what is allowed in its place."""

from pathlib import Path

import pytest

from tests.support.sql_form import in_sql, mistakes


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT a, COUNT(*) AS n\nFROM s\nGROUP BY a\nHAVING n > 1", "4: sql: got HAVING, which no metric has: "),
        ("SELECT COUNT(*) AS n FROM s\nORDER BY n", "2: sql: got ORDER BY, which no metric has: "),
        ("SELECT COUNT(*) AS n FROM s LIMIT 3", "1: sql: got LIMIT, which no metric has: "),
        ("SELECT COUNT(*) AS n FROM s UNION SELECT 1 FROM t", "1: sql: got UNION, which no metric has: "),
        ("WITH a AS (SELECT 1) SELECT 1 FROM a", "1: sql: got 'WITH' at its start, allowed is one statement"),
        ("SELECT COUNT(*) AS n FROM a JOIN b USING (x)", "1: sql: got 'a JOIN b USING (x)', but a metric reads one"),
        ("SELECT COUNT(*) AS n FROM (SELECT 1 FROM a)", "1: sql: got a subquery after FROM, allowed is a source"),
        ("SELECT COUNT(*) AS n FROM a AS b", "1: sql: got 'a AS b', allowed is the name of a source without an alias"),
        ("SELECT COUNT(*) AS n FROM a; SELECT 1 FROM b", "1: sql: got a second statement, but a metric is one SELECT"),
        ("SELECT COUNT(*) AS n FROM a EMIT FINAL", "1: sql: got EMIT FINAL, which a metric does not need"),
        (
            "SELECT COUNT(*) AS n\nFROM a WHERE x IN (SELECT 1)",
            "2: sql: got 'x IN (SELECT 1)', but an expression reads",
        ),
        ("SELECT COUNT(*) AS n\nFROM a WHERE sum(x) > 1", "2: sql: got the condition 'sum(x) > 1' with an aggregate"),
        ("SELECT\n rank() OVER (ORDER BY x) AS r FROM a", "2: sql: got 'rank() OVER (ORDER BY x)', but OVER reads"),
        ("SELECT\n SUM(DISTINCT x) AS r FROM a", "2: sql: got 'SUM(DISTINCT x)', which cannot be merged"),
        (
            "SELECT\n SUM(x) / COUNT(*) AS r FROM a",
            "2: sql: got 'SUM(x) / COUNT(*)', allowed is an aggregate alone: select SUM(x) AS a, COUNT(*) AS b "
            "and RATIO(a, b) AS a_name",
        ),
        (
            "SELECT\n SUM(x) / COUNT(*) * 100 AS r FROM a",
            "2: sql: got 'SUM(x) / COUNT(*) * 100', allowed is an aggregate alone: select COUNT(*) and SUM(x), and compute",
        ),
        ("SELECT\n SUM(MAX(x)) AS r FROM a", "2: sql: got 'SUM(MAX(x))', an aggregate of an aggregate"),
        ("SELECT DISTINCT a FROM b", "1: sql: got SELECT DISTINCT, allowed is SELECT"),
        ("SELECT ALL a FROM b", "1: sql: got SELECT ALL, allowed is SELECT"),
        (
            "SELECT COUNT(*) FILTER (NOT a) AS n FROM b",
            "1: sql: got 'COUNT(*) FILTER (NOT a)', allowed is FILTER (WHERE ",
        ),
        ("SELECT COUNT(a, b) AS n FROM c", "1: sql: got 'COUNT(a, b)', allowed is COUNT with one argument"),
        ("SELECT COUNT(DISTINCT *) AS n FROM c", "1: sql: got 'COUNT(DISTINCT *)', allowed is COUNT with one argument"),
        ("SELECT FIRST(x ORDER BY y) AS n FROM c", "1: sql: got 'FIRST(x ORDER BY y)', but the events of an hour are"),
        ("SELECT COUNT(*) AS n FROM c WHERE a AS b", "1: sql: got 'a AS b', which is no expression of Spark SQL"),
        ("SELECT try_sum(x) AS r FROM flights", "1: measures.r: got 'try_sum(x)', allowed are count, sum(x)"),
        (
            "SELECT window(event_time, '1 day').start AS d, COUNT(*) AS n FROM c GROUP BY 1",
            "1: sql: got 'window(event_time, '1 day').start', allowed is WINDOW(…) alone, as an item of its own",
        ),
        (
            "SELECT session_window(event_time, '1 month'), COUNT(*) AS n FROM c",
            "1: sql: got 'session_window(event_time, '1 month')', allowed is a gap in seconds, minutes, hours or days",
        ),
        (
            "SELECT COUNT(*) AS n FROM TABLE(SESSION(TABLE c PARTITION BY a, DESCRIPTOR(at), INTERVAL '5' MINUTE))",
            "1: sql: got 'TABLE(SESSION(TABLE c PARTITION BY a, DESCRIPTOR(at), INTERVAL '5' MINUTE))', allowed is GROUP",
        ),
        (
            "SELECT session_window(event_time, '1 hour') AS s, COUNT(*) AS n FROM c",
            "1: sql: got the name 's' for the window, allowed is none: a result names its window itself",
        ),
        (
            "SELECT COUNT(*) AS n FROM c GROUP BY TUMBLE(event_time, INTERVAL '7' DAY)",
            "1: sql: got 'TUMBLE(event_time, INTERVAL '7' DAY)', which begins on other days in Hourline: it counts days",
        ),
        (
            "SELECT COUNT(*) AS n FROM c WINDOW TUMBLING (SIZE 1 DAY, SIZE 2 DAYS)",
            "1: sql: got 'WINDOW TUMBLING (SIZE 1 DAY, SIZE 2 DAYS)', allowed is each once: SIZE",
        ),
        (
            "SELECT COUNT(*) AS n FROM c WINDOW SESSION (60 SECONDS, GRACE PERIOD 1 DAY)",
            "1: sql: got 'WINDOW SESSION (60 SECONDS, GRACE PERIOD 1 DAY)', allowed ",
        ),
        (
            "SELECT COUNT(*) AS n FROM c GROUP BY TUMBLE()",
            "1: sql: got 'TUMBLE()', allowed are TUMBLE(event_time, size)",
        ),
        ("SELECT a, COUNT(*) AS n FROM c GROUP BY ALL", "1: sql: got GROUP BY ALL, allowed are the items of SELECT by"),
        (
            "SELECT upper(origin) AS origin, COUNT(*) AS n FROM flights GROUP BY origin",
            "1: sql: got 'origin' in GROUP BY, which is a field of the source and the name of 'upper(origin)': give that",
        ),
        ("SELECT update, COUNT(*) AS n FROM c", "1: sql: got 'update' outside an aggregate and GROUP BY"),
        ("SELECT " + "(" * 3000 + "a" + ")" * 3000 + " AS b FROM c", "1: sql: got '((((((("),
        ("SELECT * FROM b", "1: sql: got '*', allowed are the columns by their names"),
        ("SELECT a FROM b GROUP BY a", "1: sql: got no aggregate, allowed is one or more, such as COUNT(*) AS n"),
        ("SELECT a, COUNT(*) AS n FROM b", "1: sql: got 'a' outside an aggregate and GROUP BY: add it to GROUP BY"),
        ("SELECT COUNT(*) AS n FROM b\nGROUP BY a", "2: sql: got 'a' in GROUP BY, which SELECT does not have: add it"),
        ("SELECT COUNT(*) AS n FROM b GROUP BY 2", "1: sql: got '2' in GROUP BY, allowed is a place from 1 to 1"),
        ("SELECT a, COUNT(*) AS n FROM b GROUP BY CUBE(a)", "1: sql: got CUBE, but a metric has one grouping"),
        (
            "SELECT a, COUNT(*) AS n FROM b GROUP BY GROUPING SETS ((a), ())",
            "1: sql: got GROUPING SETS, but a metric has",
        ),
        (
            'SELECT "a",\n COUNT(*) AS n FROM b GROUP BY 1',
            "1: sql: got \"a\", allowed is 'a' for text, `a` for a column",
        ),
        ("SELECT COUNT(*) FROM b", "1: sql: got 'COUNT(*)' without a name: write COUNT(*) AS a_name"),
        ("SELECT COUNT(*) AS n,\nSUM(x) AS n FROM b", "2: sql: got the name 'n' again, allowed is each name once"),
        ("SELECT a, COUNT(*) AS n FROM b GROUP BY a, n", "1: sql: got 'n', an aggregate, in GROUP BY: leave it out"),
        ("SELECT 'a FROM b", "1: sql: got a quote or a comment that does not close"),
        ("SELECT a,\nTOPK(b, 3) AS c FROM flights GROUP BY a", "2: measures.c: got 'topk(b, 3)', the largest values,"),
        ("SELECT\n(a FROM b", "2: sql: got '(' without the bracket that closes it"),
        ("SELECT a) FROM b", "1: sql: got ')' without the bracket that it closes"),
        ("SELECT a b c, COUNT(*) AS n FROM b", "1: sql: got 'a b c', which is no expression of Spark SQL"),
        ("SELECT FROM b", "1: sql: got nothing after SELECT"),
        ("SELECT a", "1: sql: got no FROM, allowed is SELECT … FROM a source"),
        ("FROM b SELECT a", "1: sql: got 'FROM' at its start, allowed is one statement"),
        ("SELECT COUNT(*) AS n FROM b GROUP BY a WHERE c", "1: sql: got WHERE in this place, allowed is SELECT … FROM"),
        (
            "SELECT COUNT(*) AS n FROM flights\nGROUP BY TUMBLE(landed, INTERVAL '1' HOUR)",
            "2: sql: got the time 'landed', allowed is the source's event time: at or event_time",
        ),
        (
            "SELECT COUNT(*) AS n FROM b\nGROUP BY CUMULATE(event_time, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)",
            "2: sql: got 'CUMULATE(event_time, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)', allowed are TUMBLE(event_time, ",
        ),
        (
            "SELECT TUMBLE(event_time, INTERVAL '1' DAY), COUNT(*) AS n FROM b\nWINDOW TUMBLING (SIZE 1 HOUR)",
            "1: sql: got 'TUMBLE(event_time, INTERVAL '1' DAY)' beside another window, allowed is one for a metric",
        ),
        (
            "SELECT COUNT(*) AS n FROM b WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 DAY) GROUP BY a",
            "1: sql: got 'GRACE PERIOD 1 DAY', allowed are SIZE and ADVANCE BY: the grace of a window is that of its",
        ),
        (
            "SELECT COUNT(*) AS n FROM b WINDOW w AS (PARTITION BY x)",
            "1: sql: got 'WINDOW w AS (PARTITION BY x)', allow",
        ),
        (
            "SELECT TUMBLE(event_time, INTERVAL '1' HOUR) AS w, COUNT(*) AS n FROM b",
            "1: sql: got the name 'w' for the window, allowed is none",
        ),
    ],
)
def test_a_mistake_names_the_part_and_its_line(tmp_path: Path, statement: str, said: str) -> None:
    line, _, rest = said.partition(":")
    found = mistakes(tmp_path, "description: x\n" + in_sql(statement))
    assert any(one.startswith(f"metrics/m.yaml:{int(line) + 2}:{rest}") for one in found), found
