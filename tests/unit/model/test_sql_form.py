"""A metric in SQL is the metric in YAML that it means, or a mistake with its line."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline import load_project
from hourline_core.errors import DeclarationError
from hourline_core.model import Metric, declaration_hash
from hourline_core.model.measure import Measure
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.sql_form.keys import StatementKeys

SOURCE = "topic: t\nfields: {at: timestamp, origin: string, tail: string, delay: int}\nevent_time: at\n"


def write_project(folder: Path, metric: str) -> Path:
    for name, text in {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/m.yaml": metric}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def in_sql(statement: str) -> str:
    return "sql: |\n" + "".join(f"  {line}\n" for line in statement.splitlines())


def metric_of(statement: str) -> Metric:
    keys = StatementKeys(statement, {})
    assert not keys.mistakes
    return Metric(name="m", **keys.values)


def mistakes(folder: Path, metric: str) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        load_project(write_project(folder, metric), {})
    return str(caught.value).splitlines()


ANSI = """SELECT
  origin,
  date_format(event_time, 'E, it''s') AS day,  -- it's a comment
  TUMBLE(event_time, INTERVAL '1' HOUR),
  COUNT(*) AS n,
  SUM(delay) FILTER (WHERE delay > 0) AS delay
FROM flights
WHERE tail IS DISTINCT FROM 'x'
GROUP BY origin, date_format(event_time,'E, it''s'), TUMBLE(event_time, INTERVAL '1' HOUR);
"""
KSQLDB = """SELECT origin, date_format(event_time, 'E, it''s') AS day, COUNT(*) n, SUM(delay) FILTER(WHERE delay > 0) delay
FROM flights WINDOW TUMBLING (SIZE 1 HOUR) WHERE tail IS DISTINCT FROM 'x' GROUP BY 1, DAY EMIT CHANGES
"""
FLINK = """SELECT window_start, window_end, origin, date_format(event_time, 'E, it''s') AS day,
  COUNT(1) AS n, SUM(delay) FILTER (WHERE delay > 0) AS delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(at), INTERVAL '1' HOUR)) WHERE tail IS DISTINCT FROM 'x'
GROUP BY window_start, window_end, origin, day
"""
IN_YAML = """source: flights
where: tail IS DISTINCT FROM 'x'
dimensions: [origin, day: "date_format(event_time, 'E, it''s')"]
measures: {n: count, delay: "sum(delay) where delay > 0"}
"""


@pytest.mark.parametrize("statement", [ANSI, KSQLDB, FLINK], ids=["ansi", "ksqldb", "flink"])
def test_a_statement_is_the_declaration_that_it_means(tmp_path: Path, statement: str) -> None:
    (tmp_path / "yaml").mkdir()
    (tmp_path / "sql").mkdir()
    meant = load_project(write_project(tmp_path / "yaml", IN_YAML), {})
    project = load_project(write_project(tmp_path / "sql", in_sql(statement)), {})
    metric = project.metrics["m"]
    assert metric == meant.metrics["m"]
    assert declaration_hash(project.source_of(metric), metric) == declaration_hash(
        meant.source_of(metric), meant.metrics["m"]
    )


@pytest.mark.parametrize(
    ("aggregate", "measure"),
    [
        ("count(*)", "count"),
        ("COUNT(1)", "count"),
        ("count(delay)", "count where delay IS NOT NULL"),
        ("COUNT(DISTINCT tail)", "distinct(tail)"),
        ("COUNT(DISTINCT tail) FILTER (WHERE delay > 0)", "distinct(tail) where delay > 0"),
        ("AVG(delay)", "mean(delay)"),
        ("mean( delay )", "mean(delay)"),
        ("MAX(delay /* minutes */ + 1)", "max(delay + 1)"),
        ("count(delay) FILTER (WHERE a OR b)", "count where (delay IS NOT NULL) AND (a OR b)"),
        ("SUM(`delay`)", "sum(`delay`)"),
        ("COUNT(a OR b)", "count where (a OR b) IS NOT NULL"),
        ("MIN(DISTINCT delay)", "min(delay)"),
        ("SUM(record.offset)", "sum(record.offset)"),
        ("COUNT(*) FILTER (WHERE delay > 15)", "count where delay > 15"),
        ("COUNT_IF(delay > 15)", "count where delay > 15"),
        ("ANY(delay > 15)", "any(delay > 15)"),
        ("BOOL_OR(delay > 15)", "any(delay > 15)"),
        ("LAST(delay)", "last(delay)"),
        ("MEDIAN(delay)", "quantile(delay, 0.5)"),
        ("QUANTILE(delay, 0.99) FILTER (WHERE delay > 0)", "quantile(delay, 0.99) where delay > 0"),
        ("APPROX_TOP_K(tail, 10) FILTER (WHERE delay > 0)", "top(tail, 10) where delay > 0"),
        ("TOP(concat(a, ','), 3)", "top(concat(a, ','), 3)"),
        ("VAR_SAMP(delay)", "variance(delay)"),
        ("STDDEV_POP(delay) FILTER (WHERE delay > 15)", "stddev_pop(delay) where delay > 15"),
        ("bool_and(delay > 15) FILTER (WHERE tail = 'x')", "every(delay > 15) where tail = 'x'"),
        ("min(element_at(xs, 1))", "min(element_at(xs, 1))"),
        ("sum(aggregate(xs, 0, (a, b) -> a + b))", "sum(aggregate(xs, 0, (a, b) -> a + b))"),
    ],
)
def test_an_aggregate_is_a_measure(aggregate: str, measure: str) -> None:
    assert metric_of(f"SELECT {aggregate} AS x FROM s").measures == {"x": Measure.parse(measure)}


@pytest.mark.parametrize(
    ("window", "key"),
    [
        ("TUMBLE(event_time, INTERVAL '1' HOUR)", None),
        ("TUMBLE_START(event_time, INTERVAL 1 HOUR)", None),
        ("window(event_time, '1 hour')", None),
        ("TUMBLE(event_time, INTERVAL '3' HOURS)", "3 hours"),
        ("TUMBLE(event_time, INTERVAL '1 day')", "1 day"),
        ("HOP(event_time, INTERVAL '1' MONTH, INTERVAL '1' YEAR)", {"size": "1 year", "every": "1 month"}),
        ("HOP(event_time, INTERVAL '1' HOUR, INTERVAL '1' DAY)", {"size": "24 hours", "every": "1 hour"}),
        ("HOP(event_time, INTERVAL '5' MINUTE, INTERVAL '1' DAY)", {"size": "24 hours", "every": "5 minutes"}),
        ("window(event_time, '2 days', '1 day')", {"size": "2 days", "every": "1 day"}),
        ("SESSION(event_time, INTERVAL '30' MINUTE)", {"gap": "30m"}),
        ("session_window(event_time, '90 seconds')", {"gap": "90s"}),
    ],
)
def test_a_window_function_is_a_window(window: str, key: object) -> None:
    keys = StatementKeys(f"SELECT COUNT(*) AS n FROM s GROUP BY {window}", {})
    assert (keys.values.get("window"), keys.mistakes) == (key, [])


@pytest.mark.parametrize(
    ("clause", "key"),
    [
        ("TUMBLING (SIZE 1 HOUR)", None),
        ("TUMBLING (SIZE 1 WEEK)", "1 week"),
        ("HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR)", {"size": "24 hours", "every": "1 hour"}),
    ],
)
def test_a_window_clause_of_ksqldb_is_a_window(clause: str, key: object) -> None:
    keys = StatementKeys(f"SELECT COUNT(*) AS n FROM s WINDOW {clause} GROUP BY a", {})
    assert keys.values.get("window") == key


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


def test_all_mistakes_of_a_statement_are_listed_at_once(tmp_path: Path) -> None:
    statement = "SELECT\n a,\n SUM(DISTINCT b) AS c,\n rank() OVER (ORDER BY d) AS e\nFROM flights AS f"
    assert [one.split(":")[1] for one in mistakes(tmp_path, in_sql(statement))] == ["3", "4", "5", "6"]


def test_what_the_declaration_refuses_has_the_line_of_its_item(tmp_path: Path) -> None:
    statement = "SELECT\n Origin,\n COUNT(*) AS n,\n MODE(delay) AS m\nFROM flights\nGROUP BY Origin"
    dimension, measure = mistakes(tmp_path, in_sql(statement))
    assert dimension.startswith("metrics/m.yaml:3: dimensions.Origin: got the name 'Origin', allowed are lower-case")
    assert measure.startswith("metrics/m.yaml:5: measures.m: got 'mode(delay)', which cannot be merged from partial")


def test_a_source_that_is_not_there_has_the_line_of_from(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, in_sql("SELECT COUNT(*) AS n\nFROM flight"))
    assert only.startswith("metrics/m.yaml:3: source: got 'flight', which is no source of this project")


def test_a_mistake_in_group_by_causes_no_second_one(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, in_sql("SELECT origin, COUNT(*) AS n\nFROM flights\nGROUP BY CUBE(origin)"))
    assert "got CUBE" in only


@pytest.mark.parametrize("key", ["source: flights", "dimensions: [origin]", "measures: {n: count}", "where: delay > 0"])
def test_a_key_that_a_statement_says_is_refused_beside_it(tmp_path: Path, key: str) -> None:
    [only] = mistakes(tmp_path, f"{key}\n" + in_sql("SELECT COUNT(*) AS n FROM flights"))
    assert (
        only
        == f"metrics/m.yaml:1: {key.split(':', maxsplit=1)[0]}: got it beside sql, whose statement says it: leave it out"
    )


def test_sessions_in_sql_are_those_of_ksqldb(tmp_path: Path) -> None:
    statement = "SELECT origin, COUNT(*) AS n FROM flights WINDOW SESSION (30 MINUTES) GROUP BY origin EMIT CHANGES"
    metric = load_project(write_project(tmp_path, in_sql(statement)), {}).metrics["m"]
    assert metric.window == SessionWindow(gap=timedelta(minutes=30))


def test_a_window_stands_beside_a_statement_that_says_none(tmp_path: Path) -> None:
    window = "window: {size: 1 day, zone: Europe/Berlin}\n"
    metric = window + in_sql("SELECT COUNT(*) AS n FROM flights")
    assert str(load_project(write_project(tmp_path, metric), {}).metrics["m"].window) == "1 day in Europe/Berlin"
    hourly = in_sql("SELECT COUNT(*) AS n FROM flights WINDOW TUMBLING (SIZE 1 HOUR)")
    [only] = mistakes(tmp_path, window + hourly)
    assert only == "metrics/m.yaml:1: window: got it beside sql, whose statement says it: leave it out"


def test_a_field_with_the_name_of_a_bound_is_a_field(tmp_path: Path) -> None:
    project = write_project(tmp_path, in_sql("SELECT hour AS h, COUNT(*) AS n FROM flights GROUP BY hour"))
    (project / "sources/flights.yaml").write_text(SOURCE.replace("origin:", "hour: int, origin:"))
    assert load_project(project, {}).metrics["m"].dimensions == {"h": "hour"}


@pytest.mark.parametrize("value", ["", "[a]", "{a: b}"])
def test_only_text_is_a_statement(tmp_path: Path, value: str) -> None:
    [only] = mistakes(tmp_path, f"sql: {value}\n")
    assert only.startswith("metrics/m.yaml:1: sql: got ") and "allowed is one statement" in only


def test_a_folded_statement_has_the_line_of_its_key(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, "sql: >\n  SELECT COUNT(*) AS n\n  FROM flights\n  LIMIT 3\n")
    assert only.startswith("metrics/m.yaml:1: sql: got LIMIT")


_NAMES = st.sampled_from("abcdefgh")
_EXPRESSIONS = st.sampled_from(
    ["x", "`y`", "x + 1", "upper(x)", "x OR NOT y", "CASE WHEN x THEN 1 ELSE 0 END", "a.b", "'it''s, (x'"]
)
_MEASURES = st.one_of(
    st.just(("COUNT(*)", "count")),
    st.tuples(st.sampled_from(["sum", "min", "max", "mean"]), _EXPRESSIONS).map(
        lambda call: (f"{call[0].upper()}({call[1]})", f"{call[0]}({call[1]})")
    ),
    _EXPRESSIONS.map(lambda x: (f"COUNT( DISTINCT {x} )", f"distinct({x})")),
    st.tuples(_EXPRESSIONS, st.integers(1, 100)).map(
        lambda call: (f"APPROX_TOP_K({call[0]}, {call[1]})", f"top({call[0]}, {call[1]})")
    ),
)
_GAPS = st.sampled_from([" ", "\n", "\t", " -- it's\n", " /* , */ "])


@given(
    dimensions=st.dictionaries(_NAMES.map("d{}".format), _EXPRESSIONS, max_size=3),
    measures=st.dictionaries(_NAMES.map("m{}".format), _MEASURES, min_size=1, max_size=3),
    where=st.none() | _EXPRESSIONS,
    data=st.data(),
)
def test_every_declaration_can_be_said_in_sql(
    dimensions: dict[str, str], measures: dict[str, tuple[str, str]], where: str | None, data: st.DataObject
) -> None:
    def gap() -> str:
        return data.draw(_GAPS)

    def alias(name: str) -> str:
        return gap() + data.draw(st.sampled_from(["AS ", "as\n", ""])) + name

    items = [x + alias(name) for name, x in dimensions.items()] + [x + alias(n) for n, (x, _) in measures.items()]
    groups = [
        data.draw(st.sampled_from([x, name, str(place)])) for place, (name, x) in enumerate(dimensions.items(), start=1)
    ]
    # A group by its text is ambiguous if two dimensions have the same expression.
    if len(set(dimensions.values())) < len(dimensions):
        groups = list(dimensions)
    statement = f"SELECT{gap()}" + f",{gap()}".join(items)
    statement += f"{gap()}FROM{gap()}s"
    statement += f"{gap()}WHERE{gap()}{where}" if where else ""
    statement += f"{gap()}GROUP{' '}BY{gap()}" + f"{gap()},".join(groups) if groups else ""
    said = metric_of(statement)
    meant = Metric(
        name="m",
        source="s",
        dimensions=dimensions,
        measures={name: Measure.parse(text) for name, (_, text) in measures.items()},
        where=where,
    )
    assert said == meant


_WORDS = """SELECT FROM WHERE GROUP BY WINDOW TUMBLE HOP SESSION DISTINCT FILTER COUNT TABLE DESCRIPTOR OVER AS a b , , (
( ) ) * 'x' 1 INTERVAL HOUR . ; - = -> :: [ ] { } ? @ # $ EMIT CHANGES SIZE ADVANCE TUMBLING"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=14))
def test_no_statement_raises(words: list[str]) -> None:
    keys = StatementKeys("SELECT a , COUNT ( * ) AS n FROM b " + " ".join(words), {})
    assert keys.mistakes or Metric(name="m", **{k: v for k, v in keys.values.items() if k != "window"})
