"""The type of a field is refused where it is declared, if no record could be decoded into it."""

import pytest
from pydantic import ValidationError

from hourline_core.model.field_types import parse_type, spark_ddl
from hourline_core.model.fields import Field


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("json", "string"),
        ("array<json>", "array<string>"),
        ("struct<`a b`: json, c: long>", "struct<`a b`: string, `c`: bigint>"),
        ("struct<`a``b`: int, 0a: int>", "struct<`a``b`: int, `0a`: int>"),
        ("STRUCT<a BIGINT, b smallint>", "STRUCT<a BIGINT, b smallint>"),
    ],
)
def test_a_declared_type_is_one_of_spark(declared: str, spark: str) -> None:
    assert Field(type=declared).spark_type == spark


@pytest.mark.parametrize("declared", ["struct<a: array<map<string, decimal(5,1)>>, `b c`: json>", "array<tinyint>"])
def test_a_type_is_read_again_from_its_text(declared: str) -> None:
    tree = parse_type(declared)
    assert parse_type(str(tree)) == tree
    assert spark_ddl(parse_type(str(tree))) == spark_ddl(tree)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("array<binary>", "got 'binary', allowed are string"),
        ("array<timestamp_ntz>", "did you mean 'string'?"),
        ("struct<a: variant>", "did you mean 'json'?"),
        ("array<interval day>", "got 'interval day', allowed are string"),
        ("map<int, string>", "allowed is map<string, type>: the names in a JSON object are texts"),
        ("struct<a: int, A: string>", "got the name 'A' twice"),
        ("struct<a b c: int>", "got 'b c: int'"),
        ("struct<a-b: int>", "in backquotes"),
        ("struct<a: int,>", "allowed is struct<name: type, …>"),
        ("array<decimal(5)>", "allowed is decimal(p,s), such as decimal(18,2)"),
        ("array<" * 40 + "int" + ">" * 40, "got a type of more than 32 levels"),
    ],
)
def test_a_type_that_no_record_can_have_is_refused(declared: str, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Field(type=declared)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "long", "encoding": "epoch_seconds"}, "got the encoding 'epoch_seconds' for a long"),
        ({"type": "array<timestamp>", "encoding": "epoch_seconds"}, "allowed is it for a timestamp only"),
        ({"type": "timestamp", "encoding": "epoch_seconds", "zone": "Europe/Berlin"}, "got a zone without a local"),
        ({"type": "double", "round": True}, "got round: true for a double, allowed is it for a decimal(p,s) only"),
    ],
)
def test_an_encoding_or_rounding_is_refused_for_another_type(field: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Field.model_validate(field)
    assert said in str(refused.value)
