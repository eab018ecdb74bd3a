"""What may differ between the stream and a recompute is refused, with its line. Spark's own functions are all known."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hourline_core.compute.check import find_unresolved
from hourline_core.compute.spark_functions import (
    AGGREGATES,
    CLOCK_WITHOUT_ARGUMENTS,
    REFUSED,
    REPEATABLE,
    WINDOW_FUNCTIONS,
    WITHOUT_BRACKETS,
)
from hourline_core.model import Project, Settings, load_project
from hourline_core.model.expressions import ATTEMPT
from hourline_core.runtime.spark import spark_session
from tests.support.project_files import write_project

SOURCE = """\
topic: t
fields: {day: date, at: timestamp, name: string, n: int, now: string, today: int, version: int, current_time: int}
event_time: at
"""
EXPECTATIONS = """\
expectations:
- expect_column_max_to_be_between: {column: day, min_value: 2024-01-01, row_condition: "hour > '2024' and day is not null"}
- expect_column_max_to_be_between: {column: day, min_value: 2024-01-01, row_condition: "day < 'today'"}
- expect_column_max_to_be_between: {column: day, min_value: 2024-01-01, row_condition: 'col("day").notNull()',
    condition_parser: great_expectations}
"""
MOVES = "is a time that moves with the clock"
RANDOM = "gives another value each time"
CLOCK = "is the time of the computation"
SESSION = "depends on the session of Spark"
SEVERAL = "is about several events, allowed is an expression over one event"
REFUSALS = {
    "date'today'": MOVES,
    "timestamp'now'": MOVES,
    "timestamp_ntz'now'": MOVES,
    "timestamp_ltz 'yesterday UTC'": MOVES,
    'DATE /* of */ "Tomorrow"': MOVES,
    r"date'\u0074oday'": MOVES,
    "day = 'tomorrow'": MOVES,
    "at > 'now' or n = 1": MOVES,
    "cast('now' as timestamp)": MOVES,
    "' TODAY UTC '::date": MOVES,
    "cast(concat('to', 'day') as date)": MOVES,
    "date('today')": MOVES,
    "to_date('today')": MOVES,
    "to_timestamp('now')": MOVES,
    "date_add('today', n)": MOVES,
    "transform(array(day), x -> x = 'today')": MOVES,
    "uniform(1, 2)": RANDOM,
    "randstr(3)": RANDOM,
    "rand(7)": RANDOM,
    "transform(array(n), x -> x + random())": RANDOM,
    "system.builtin.rand()": RANDOM,
    "`uuid`()": RANDOM,
    "spark_partition_id()": RANDOM,
    "now()": CLOCK,
    "current_timestamp": CLOCK,
    "localtimestamp()": CLOCK,
    "current_date + n": CLOCK,
    "unix_timestamp()": CLOCK,
    "current_user": SESSION,
    "user": SESSION,
    "session_user()": SESSION,
    "current_timezone()": SESSION,
    "current_catalog() || current_schema()": SESSION,
    "version()": SESSION,
    "input_file_name()": "depends on Spark's files",
    "reflect('java.util.UUID', 'randomUUID')": "calls Java",
    "try_reflect('java.util.UUID', 'randomUUID')": "calls Java",
    "java_method('java.util.UUID', 'randomUUID')": "calls Java",
    "aes_encrypt(name, '0123456789abcdef')": "begins with random bytes",
    "explode(array(n))": "makes several rows of an event; use the source's explode",
    "window(at, '2 hours', '1 hour')": "use the metric's window, or date_trunc",
    "'$${spark.app.id}'": "got '${', which Spark replaces by a setting",
    "identifier('rand')()": "got Spark's ExpressionWithUnresolvedIdentifier",
    "uper(name)": "allowed are the functions of Spark SQL that give the same value each time — did you mean 'upper'?",
    "other.schema.upper(name)": "got 'other.schema.upper', allowed are the functions of Spark SQL",
    "hash(*)": "'*' stands for all columns",
    "sum(n)": SEVERAL,
    "first(n) ignore nulls": SEVERAL,
    "row_number() over (order by n)": "got OVER, allowed is an expression over one event",
    "lag(n)": "got the window function 'lag', allowed is an expression over one event",
    "(select 1)": "got SELECT, allowed is an expression over one event",
    "exists(select 1)": "got SELECT, allowed is an expression over one event",
}
REPEATS = [
    "name = 'today'",
    "coalesce(now, 'now') || ' yesterday'",
    "now",
    "`now`",
    "version + today",
    "current_time + 1",
    "map('now', n)['now']",
    "cast(name as date)",
    "cast('epoch' as timestamp)",
    "date'2024-01-01' + interval 1 day",
    "timestamp'2024-01-01 00:00:00'",
    "day between '2024-01-01' and date'2024-12-31'",
    "unix_timestamp(at)",
    "case when n > 1 then 'now' else 'today' end",
    "case n when 1 then 2 end",
    "n in (1, 2) and not (n <=> 3) or n is not distinct from 4",
    "name like 'a%' or name ilike any ('b', 'c') or name not rlike 'd' or name like all ('e', 'f')",
    "trim(both 'a' from name) || ltrim(name)",
    "substring(name from 1 for 2)",
    "overlay(name placing 'x' from 1)",
    "position('a' in name)",
    "extract(year from day)",
    "timestampadd(day, 1, at) > at and timestampdiff(hour, at, at) = 0",
    "-n % 3 div 2 + ~n & 1 | 2 ^ 3 << 1",
    "n::string",
    "filter(array(1, n), x -> exists(array(3), y -> y > x))",
    "aggregate(array(n), 0, (a, b) -> a + b)",
    "struct(n as a, name).a",
    "array(n)[0]",
    "if(n is null, null, true)",
    "name collate utf8_lcase = 'a'",
    "try_cast(name as int)",
    "from_json(name, 'a int').a",
    "xxhash64(n) + hash(name)",
    "parse_json(name):a::int",
    "X'00'",
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("repeatable"), declared, {}, {}), "test", brief=True)
    yield session
    session.stop()


def test_each_function_of_spark_is_in_one_list(spark: SparkSession) -> None:
    shown = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    registered = spark._jsparkSession.sessionState().functionRegistry().listFunction()
    names = (shown | {registered.apply(place).funcName() for place in range(registered.size())}) - {ATTEMPT}
    lists = [REPEATABLE, AGGREGATES, WINDOW_FUNCTIONS, frozenset(REFUSED)]
    unlike = {name: sum(name in one for one in lists) for name in names}
    assert {name: count for name, count in unlike.items() if count != 1} == {}, "each is in exactly one list"
    assert frozenset().union(*lists) - names == set(), "Spark has these no more"
    assert CLOCK_WITHOUT_ARGUMENTS.keys() <= REPEATABLE
    assert REFUSED.keys() >= WITHOUT_BRACKETS


def test_each_function_that_spark_takes_without_brackets_is_known(spark: SparkSession) -> None:
    words = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect() if row[0].replace("_", "").isalnum()}
    found = set()
    for word in words:
        try:
            spark.sql(f"SELECT `{word}`")
            found.add(word)
        except AnalysisException:
            continue
    assert found == WITHOUT_BRACKETS
    assert spark.sql("SELECT user FROM VALUES (7) AS t(user)").collect() == [(7,)], "a column goes before"


def test_what_does_not_repeat_is_refused_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    files = {"hourline.yaml": "", "sources/s.yaml": SOURCE}
    for number, expression in enumerate(REFUSALS):
        files[f"metrics/m{number:02}.yaml"] = (
            f"source: s\ndimensions:\n  x: {json.dumps(expression)}\nmeasures: {{n: count}}\n"
        )
    mistakes = sorted(find_unresolved(spark, load_project(write_project(tmp_path, files))))
    assert len(mistakes) == len(REFUSALS), mistakes
    for number, (mistake, said) in enumerate(zip(mistakes, REFUSALS.values(), strict=True)):
        assert mistake.startswith(f"metrics/m{number:02}.yaml:3: dimensions.x: ")
        assert said in mistake
        assert "\n" not in mistake


def test_what_repeats_is_allowed(spark: SparkSession, tmp_path: Path) -> None:
    dimensions = "".join(f"  d{number}: {json.dumps(expression)}\n" for number, expression in enumerate(REPEATS))
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": SOURCE,
        "metrics/m.yaml": f"source: s\ndimensions:\n{dimensions}measures: {{n: count}}\n",
    }
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == []


def test_each_place_of_an_expression_is_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    base = "topic: {}\nfields: {{day: date, at: timestamp, days: array<date>}}\n{}event_time: {}\n"
    files = {
        "hourline.yaml": "",
        "sources/branch.yaml": base.format("a", "branch: day = 'today'\n", "at"),
        "sources/derived.yaml": base.format("b", "derived: {fine: day, bad: fine = 'today'}\n", "at"),
        "sources/explode.yaml": base.format("c", "explode: {it: \"filter(days, x -> x = 'today')\"}\n", "at"),
        "sources/id.yaml": base.format("d", "id: day < 'today'\n", "at"),
        "sources/time.yaml": base.format("e", "", "coalesce(at, timestamp'now')"),
        "sources/where.yaml": base.format("f", "where: day < 'today'\n", "at"),
        "sources/whole.yaml": base.format("g", "", "at"),
        "sources/expected.yaml": base.format("h", "", "at") + EXPECTATIONS,
        "metrics/all.yaml": "source: whole\nwhere: day < 'today'\ndimensions:\n  d: day = 'today'\n"
        "measures:\n  m: max(day = 'today')\n  n:\n    count where day > 'today'\n",
    }
    mistakes = sorted(find_unresolved(spark, load_project(write_project(tmp_path, files))))
    assert [mistake.partition(f" {MOVES}")[0] for mistake in mistakes] == [
        "metrics/all.yaml:2: where: 'today'",
        "metrics/all.yaml:4: dimensions.d: 'today'",
        "metrics/all.yaml:6: measures.m: 'today'",
        "metrics/all.yaml:7: measures.n.where: 'today'",
        "sources/branch.yaml:3: branch: 'today'",
        "sources/derived.yaml:3: derived.bad: 'today'",
        "sources/expected.yaml:6: expectations.1.expect_column_max_to_be_between.row_condition: 'today'",
        "sources/explode.yaml:3: explode.it: 'today'",
        "sources/id.yaml:3: id: 'today'",
        "sources/time.yaml:3: event_time: timestamp 'now'",
        "sources/where.yaml:3: where: 'today'",
    ]


def test_spark_takes_only_constant_texts_for_times_that_move(spark: SparkSession) -> None:
    words = spark.sql("SELECT * FROM VALUES ('today'), ('now UTC'), ('epoch') AS t(word)")
    derived = words.withColumn("constant", words.word.substr(0, 0)).selectExpr("*", "'today' AS fixed")
    times = derived.selectExpr("cast(word AS date)", "to_timestamp(word)", "cast(fixed AS date)", "date(constant)")
    assert {value for row in times.collect() for value in row} == {None}
