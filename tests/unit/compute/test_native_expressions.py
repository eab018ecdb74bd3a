"""Which expressions DuckDB computes: those of a closed list, and none of those that mean something else in Spark."""

import duckdb
import pytest
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Tokenizer

from hourline_core.compute.native_expressions import translate
from hourline_core.compute.projection import Projection
from hourline_core.model import EventTime, Field, Source
from hourline_core.model.scratch_columns import EVENT_TIME
from speed_layer.intake.native_records import native_expressions
from tests.support.native_rows import SOURCE


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("Text", "string"),
        ("`text`", "string"),
        ("substring(text, 2, 3)", "string"),
        ("whole % 7", "int"),
        ("long % 7", "bigint"),
        ("text = 'a' AND truth IS NOT NULL", "boolean"),
        ("CASE WHEN (product > 1) THEN (whole) END", "int"),
        ("cast(whole as double)", "double"),
        ("cast(long as decimal(19,0))", "decimal(19, 0)"),
        ("concat(text, '/', long)", "string"),
        ("make_valid_utf8(text)", "string"),
        ("whole BETWEEN 1 AND 2 OR NOT truth", "boolean"),
        ("single", "float"),
        ("single + cast(0 as float)", "float"),
        ("listed", "array<string>"),
        ("coalesce(text, 'none')", "string"),
        ("nvl(whole, 0)", "int"),
        ("double > 1.5", "boolean"),
        ("double BETWEEN -0.5 AND 1.5", "boolean"),
        ("double * 1.1 - 0.25", "double"),
        ("whole > -1", "boolean"),
        ("-double", "double"),
        ("long / 1000", "double"),
        ("double / 0.5", "double"),
        ("cast(0.1 as double)", "double"),
        ("length(text)", "int"),
        ("split_part(text, '/', 2)", "string"),
        ("whole + 1", "int"),
        ("long * whole", "bigint"),
        ("-whole", "int"),
        ("abs(double)", "double"),
        ("floor(double)", "bigint"),
        ("if(truth, text, 'none')", "string"),
        ("nullif(text, '')", "string"),
        ("text LIKE 'a%'", "boolean"),
        ("startswith(text, 'a')", "boolean"),
        ("trim(text)", "string"),
        ("text <=> other", "boolean"),
        ("hour(event_time)", "int"),
        ("dayofweek(day)", "int"),
        ("cast(moment as date)", "date"),
        ("event_time", "timestamp"),
        ("hour", "timestamp"),
        (f"`{EVENT_TIME}`", "timestamp"),
    ],
)
def test_an_expression_of_the_list_has_its_type_in_spark(text: str, type: str) -> None:
    found = translate(SOURCE, text)
    assert found
    assert found.type == type


@pytest.mark.parametrize(
    "text",
    [
        "whole % 0",
        "whole % -3",
        "double % 2",
        "double / whole",
        "double / 0",
        "double / 0.0",
        "single / 2",
        "1.5",  # a decimal
        "coalesce(1.5, 2.5)",
        "whole > 1.5",
        "whole / 1.5",
        "1.5 > 0.5",
        "double > 0.1234567890123456",
        "coalesce(text, 1)",
        "coalesce(whole, long)",
        "length(whole)",
        "split_part(text, '', 1)",
        "split_part(text, '/', 0)",
        "split_part(text, '/', -1)",
        "split_part(text, other, 1)",
        "single > 1",  # of 32 bits
        "single + double",
        "single + cast(16777217 as float)",  # which a float does not hold
        "single + cast(whole as float)",
        "single + cast('0' as float)",
        "text > 1",  # Spark makes a number of the text
        "moment > '2024'",
        "text = 'a\\nb'",
        "text = 'ä'",
        "upper(text)",  # of letters beyond ASCII, their cases differ
        "text LIKE other",
        "text LIKE 'a!%' ESCAPE '!'",
        "trim('a' FROM text)",
        "floor(double, 1)",
        "round(double)",
        "if(truth, whole, long)",
        "nullif(text, 1)",
        "hour(text)",
        "dayofweek(text)",
        "date(text)",
        "substring(text, -2)",
        "substring(text, whole)",
        "cast(double as bigint)",
        "cast(double as string)",
        "cast(long as int)",
        "listed[0]",
        "record.key",
        "missing",
        "null",
        "case whole when 1 then 2 end",
        "whole IN (SELECT 1)",
        "whole = ",
        "3000000000 > long",
        f"{'abs(' * 900}double{')' * 900}",
    ],
)
def test_all_else_is_left_to_spark(text: str) -> None:
    assert translate(SOURCE, text) is None


def keywords() -> set[str]:
    """The words of sqlglot's and DuckDB's SQL that may be names of fields."""
    tokenizers = (Tokenizer, Spark.Tokenizer)
    words = {word.lower() for one in tokenizers for word in one.KEYWORDS if word.isascii() and word.isidentifier()}
    rows = duckdb.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    return words | {word for (word,) in rows if word.isidentifier()}


def test_a_field_with_the_name_of_a_keyword_is_this_field_or_left_to_spark(caplog: pytest.LogCaptureFixture) -> None:
    words = sorted(keywords() - {"true", "false"})  # which are values in Spark, too
    assert {"load", "show", "select", "user", "end"} <= set(words)
    source = SOURCE.model_copy(update={"fields": {word: Field(type="int") for word in words}})
    found = {word: native for word in words if (native := translate(source, word))}
    assert {"load", "show", "user", "end"} <= found.keys()
    columns = ", ".join(f'{number} AS "{word}"' for number, word in enumerate(words))
    query = f"SELECT {', '.join(native.sql for native in found.values())} FROM (SELECT {columns})"
    assert duckdb.execute(query).fetchall() == [tuple(words.index(word) for word in found)]
    assert caplog.records == []  # which a terminal would show


@pytest.mark.parametrize(
    "text", ["whole, long", "whole FROM s", "DISTINCT whole", "whole LIMIT 1", "whole AS load", "*"]
)
def test_what_is_more_than_an_expression_is_left_to_spark(text: str) -> None:
    assert translate(SOURCE, text) is None


def exploded(kind: str, expression: str = "parts") -> Source:
    fields = {"parts": Field(type=f"array<{kind}>"), "text": Field(type="string"), "at": Field(type="timestamp")}
    return Source(
        name="s",
        topic="t",
        fields=fields,
        explode={"Part": expression},
        derived={"same": "part"},
        event_time=EventTime(expression="at"),
    )


@pytest.mark.parametrize(
    ("kind", "text", "type"),
    [
        ("string", "part", "string"),
        ("string", "concat(text, '/', same)", "string"),
        ("long", "PART + 1", "bigint"),
        ("timestamp", "hour(part)", "int"),
        ("decimal(10, 2)", "part", "decimal(10,2)"),
        ("array<int>", "part", "array<int>"),
    ],
)
def test_an_element_of_a_declared_array_has_its_type(kind: str, text: str, type: str) -> None:
    found = translate(exploded(kind), text)
    assert found
    assert found.type == type
    assert '"Part"' in found.sql


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (exploded("smallint"), "part"),  # No field has this type.
        (exploded("string", "filter(parts, x -> x <> '')"), "part"),
        (exploded("string"), "parts"),  # An event does not keep the array.
        (exploded("struct<name: string>"), "part.name"),
    ],
)
def test_what_only_spark_knows_of_an_element_is_left_to_it(source: Source, text: str) -> None:
    assert translate(source, text) is None


def test_the_records_of_a_source_that_explodes_are_left_to_spark() -> None:
    source = exploded("string").model_copy(update={"id": "part"})
    assert translate(source, "part")
    assert native_expressions(source, None, Projection([])) is None
    plain = source.model_copy(update={"explode": {}, "id": "text"})
    assert native_expressions(plain, None, Projection([])) is not None
