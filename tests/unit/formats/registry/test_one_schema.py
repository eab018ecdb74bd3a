"""A schema with those that it refers to is one schema, in which each name means what it meant."""

import json

from hourline_core.formats.avro.one_schema import as_one_schema
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.record_types import fields_of
from tests.support.registry_records import member, record


def test_a_name_without_a_namespace_keeps_none_within_a_record_that_has_one() -> None:
    size = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}
    inner = record("shop.Item", member("size", "Size"))
    whole = record("Cart", member("first", inner), member("largest", "Size"))
    references = {"Size": json.dumps(size)}
    text = as_one_schema(json.dumps(whole), references)
    assert dict(fields_of(parse_avro(text))) == dict(fields_of(parse_avro(json.dumps(whole), references)))
    assert text.count('"symbols"') == 1
