"""The page of formats: what the records of a source may be, beside JSON."""

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from docs.generate import avro_contract, protobuf_contract, registry_contract, text_contract
from docs.generate.markdown import code, heading, prose, table
from docs.generate.markdown import page as whole_page
from hourline_core.formats.avro.binary import DEEPEST, MOST_WITHOUT_BYTES

_INTRODUCTION = """
The key `format` of a source says what the value of each record is. The default is `json`: one JSON object, see
[Types](types.md). All formats keep the same promise: each record becomes typed fields, or it is rejected with a reason.
The same decoder reads a record in the stream, and when archived records are decoded anew.

The archive keeps the bytes of records. So a format, a schema and fields may be declared in another way later: a
recompute decodes the records anew.
"""

_AVRO = """
`format: {avro: {schema: orders.avsc}}` declares records in Avro's
[binary encoding](https://avro.apache.org/docs/1.12.0/specification/#binary-encoding). `orders.avsc` is a file in the
folder `schemas` of the project. You can also write the schema inline, as JSON. Its top type must be `record`.

If `fields` are left out, they follow from the schema, and `hourline check` shows them. Declare them to give them other
names (`key` is the name in the schema) or types, or to read a few of them only.
"""

_AVRO_RULES = f"""
The bytes are read strictly. A record is rejected if one of these is true:

- It ends within a value, or has bytes behind its end.
- A number has more than 10 bytes, or more bits than its type. A boolean is neither 0 nor 1.
- The number of an enum's symbol, or of a union's type, does not exist. A length is negative.
- A text is not UTF-8. A `uuid` is none. A `decimal` has more digits than its precision, or no bytes.
- A block of an array or a map has another size than it says.
- Arrays have more than {MOST_WITHOUT_BYTES:,} elements that take no bytes, such as nulls.
- Records, arrays and maps are more than {DEEPEST} levels within each other.

The reason names the member and the byte, counted from 0, as in `invalid Avro in 'items[3].price': got the end of the
bytes within the value at byte 48`. All members are read, also those that are no fields. If a name is in a map several
times, the last value counts.

A logical type that is not valid or not known is ignored, as Avro wants it. A text of a `uuid` becomes lower case.

A `local-timestamp` follows as a text. To use it as the event time, name its zone:
`event_time: {{expression: at, encoding: local, zone: Europe/Berlin}}`.
"""


_REGISTRY = """
With `format: {avro: {schema: orders.avsc, registry: true}}`, each record names the schema that it was written by: by
0x00 and an id of 4 bytes in front of its value, or by the header `__value_schema_id`. `schema` is the schema that
records are mapped to. So producers may write by a newer or an older schema.
[The guide](../guides/schema-registry.md) says how to connect to the registry, and what happens while it is away.
"""

_PROTOBUF_REGISTRY = """
With `format: {protobuf: {schema: shop.proto, message: shop.Order, registry: true}}`, each record names the schema that
it was written by as in Avro, and the place of its message in this schema. The schema of the record says what its bytes
mean: its types and defaults count. `schema` gives the names, by the numbers of members, and the defaults of members
that the schema of the record does not have. Packages do not matter.
"""

_PROTOBUF = """
`format: {protobuf: {schema: shop.proto, message: shop.Order}}` declares records that are messages of
[Protobuf](https://protobuf.dev/programming-guides/encoding/). `shop.proto` is a file in the folder `schemas`, and may
import others of that folder, and Google's. You can also write its text inline. `message` may be left out if this file
declares one message at its top. Imported files do not count. Fields follow from the message as they do from a schema
of Avro. It needs the extra `hourline[protobuf]`, which is part of `hourline[engine]`.

A record is rejected if its bytes end early, if a text is not UTF-8, or if a member has another encoding than that of
its type. It is also rejected if a number is beyond its type, if a `required` member is missing, or if more than 100
messages are within each other. A member that is no field is checked for its encoding, too. If it belongs to the
message itself, the range of a number is not checked, and in proto2 neither is UTF-8.

Members that the schema does not know are passed over, since producers may be newer. A member without presence that is
not set has its default, as Protobuf says. One with presence is null. A record without bytes is a message with
only default values. A record whose value is null is a tombstone, as in all formats.
"""

_JSON_REGISTRY = """
With `format: {json: {registry: true}}`, each record names a JSON Schema as in Avro. The object behind the id becomes
the declared `fields`, as without a registry, see [Types](types.md). `fields` must be declared. A record is rejected if
the registry does not know the id, or if it is that of another kind of schema. It is not validated by the schema.
"""

_CSV = """
`format: {csv: {columns: [order_id, at, amount], delimiter: ";"}}` declares records that are one row of CSV each ([RFC
4180](https://www.rfc-editor.org/rfc/rfc4180)). One line end may follow. There is no header: a record with the column
names is read as a row. Fields are columns, by name or by `key`. A column whose name is no field name, such as
`order id`, needs `fields` with `key`. Without `fields`, all columns are `string`. An empty cell without quotes is null,
and so is one that is `null_text`.
"""

_TEXT = r"""
`format: {text: {pattern: '(?P<host>\S+) (?P<status>\d{3})'}}` declares records that are texts, of which a regular
expression takes the fields: each named group is one. The whole text must match; one line end at its end is left out.
The expression is one of [RE2](https://github.com/google/re2/wiki/Syntax), whose time grows with the length of the
text alone. A group that is empty, or took no part, is null. Without `fields`, all groups are `string`.

RE2 has no look-ahead, no look-behind and no back-references. `\d`, `\w` and `\s` match ASCII only. The end of the text
is `\z`, not `\Z`. An unnamed group `(…)` is refused: write `(?:…)`.
"""

_CELLS = """
Cells of CSV and groups of a text become values of a declared type by the
[rules of an imported CSV file](../guides/import-and-replay.md#csv). Numbers are written as in JSON: without a plus
sign, without blanks and without leading zeros. A `decimal` and an epoch may have leading zeros. A `decimal` has no
exponent. These rows are examples.
"""

_IMPORTED = """
A file of CSV, JSON lines, Parquet or Avro that is imported has a format of its own, whatever the `format` of the source
is. Its rows become fields by the rules of [JSON](types.md), or of CSV. So a file may have values that the format of the
source would reject, such as a double for a `decimal`. An imported CSV file has a header, commas and `--null-text`,
whatever the source declares.

A file of text or Protobuf has records in the format of the source: each line, or each message with its length in
front. They become fields as records of Kafka do. [Import and replay files](../guides/import-and-replay.md) says which
files `hourline replay` sends to which source.

[Tests of metrics](../guides/test-metrics.md#write-a-test) give the events of Avro and Protobuf as YAML.
"""

_WITHOUT = {
    "`decimal` with more than 38 digits": "none: declare it as `json`, or as a `decimal` of fewer digits",
    "`duration`": "none: declare it as `json`",
    "`null`": "none: it is always null",
    "`google.protobuf.Duration`": "none: declare it as `string` or `json`",
    "`google.protobuf.Any`": "none: it cannot be a field",
}
"""What is said of types from which no field follows."""


def page() -> str:
    """The text of the page."""
    return whole_page(
        "Formats",
        "docs/generate/formats.py and the modules *_contract.py beside it",
        prose(_INTRODUCTION),
        heading(2, "Avro"),
        *_avro(),
        heading(2, "Avro with a schema registry"),
        *_registry(),
        heading(2, "Protobuf"),
        *_protobuf(),
        heading(2, "Protobuf with a schema registry"),
        *_protobuf_registry(),
        heading(2, "JSON with a schema registry"),
        prose(_JSON_REGISTRY),
        heading(2, "CSV"),
        *_csv(),
        heading(2, "Text"),
        *_text(),
        heading(2, "Imported files"),
        prose(_IMPORTED),
    )


def _avro() -> Iterator[str]:
    yield prose(_AVRO)
    yield _following("Avro", avro_contract.FOLLOWING)
    yield heading(3, "What is rejected")
    yield _AVRO_RULES.strip()
    yield heading(3, "What each type takes")
    yield prose(
        "A declared type takes what it holds exactly. A value that it does not take rejects the record, and the reason "
        "has the value. These rows are examples; each of them is a test."
    )
    rows = [(row.avro, _value(row.value), _declared(row), _taken(row)) for row in avro_contract.ROWS]
    yield table(["Avro", "value", "declared", "becomes"], rows)


def _registry() -> Iterator[str]:
    yield prose(_REGISTRY)
    rows = [
        (row.difference, _value(row.value), "rejected" if row.taken is None else _value(row.taken))
        for row in registry_contract.ROWS
    ]
    yield table(["the record's schema has", "value", "becomes"], rows)


def _protobuf() -> Iterator[str]:
    yield prose(_PROTOBUF)
    yield _following("Protobuf", protobuf_contract.FOLLOWING)
    rows = [
        (row.protobuf, code(row.value) if row.value else "nothing set", _declared(row), _taken(row))
        for row in protobuf_contract.ROWS
    ]
    yield table(["Protobuf", "value", "declared", "becomes"], rows)


def _protobuf_registry() -> Iterator[str]:
    yield prose(_PROTOBUF_REGISTRY)
    rows = [
        (
            row.difference,
            code(row.value) if row.value else "nothing set",
            "rejected" if row.taken is None else _value(row.taken),
        )
        for row in registry_contract.PROTOBUF_ROWS
    ]
    yield table(["the record's message has", "value", "becomes"], rows)


def _following(format: str, following: Iterable[tuple[str, Any, str | None]]) -> str:
    rows = [(words, code(kind) if kind else _WITHOUT[words]) for words, _, kind in following]
    return table([format, "field that follows, for example"], rows)


def _csv() -> Iterator[str]:
    yield prose(_CSV)
    csv_rows = [
        (_value(row.written.decode(errors="replace")), _value(list(row.cells)) if row.cells else _reason(row.reason))
        for row in text_contract.CSV_ROWS
    ]
    yield table(["record", "cells in a, b and c, or the reason"], csv_rows)
    yield prose(_CELLS)
    cells = [(_value(row.written), _declared(row), _taken(row)) for row in text_contract.CELLS]
    yield table(["cell", "declared", "becomes"], cells)


def _text() -> Iterator[str]:
    yield prose(_TEXT)
    rows = [
        (
            code(row.pattern),
            _value(row.written.decode(errors="replace")),
            _value(dict(row.groups)) if row.groups else _reason(row.reason),
        )
        for row in text_contract.TEXT_ROWS
    ]
    yield table(["pattern", "record", "groups, or the reason"], rows)


def _declared(row: avro_contract.Row | protobuf_contract.Row | text_contract.Row) -> str:
    options = "".join(f", {name}: {json.dumps(value).strip(chr(34))}" for name, value in row.options.items())
    return code(f"{row.declared}{options}")


def _value(value: object) -> str:
    match value:
        case bytes():
            return code("0x" + value.hex())
        case str() | bool() | list() | dict():
            # Nobody sees a byte order mark.
            return code(json.dumps(value, ensure_ascii=False).replace("\ufeff", "\\ufeff"))
    return code(value)


def _reason(reason: str) -> str:
    return reason.replace("\n", "\\n")


def _taken(row: avro_contract.Row | protobuf_contract.Row | text_contract.Row) -> str:
    if row.taken is protobuf_contract.NULL:
        return "null"
    match row.taken:
        case None:
            return "refused"
        case datetime():
            return code(row.taken.isoformat().replace("+00:00", "Z"))
        case date():
            return code(row.taken.isoformat())
        case list() if row.declared.startswith("map"):
            return _value(dict(row.taken))
    return _value(row.taken)
