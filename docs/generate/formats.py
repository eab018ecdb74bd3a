"""The page of formats: what the records of a source may be, beside JSON."""

import json
from collections.abc import Iterator
from datetime import date, datetime

from docs.generate import avro_contract
from docs.generate.markdown import code, heading, prose, table
from docs.generate.markdown import page as whole_page
from hourline_core.formats.avro.binary import DEEPEST, MOST_WITHOUT_BYTES

_INTRODUCTION = """
The key `format` of a source says what the value of each record is. The default is `json`: one JSON object, see
[Types](types.md). All formats keep the same promise: each record becomes typed fields, or it is rejected with a reason.
The same decoder reads a record in the stream, in an import of archived records, and when records are decoded anew.

The archive keeps the bytes of records. So a format, a schema and fields may be declared in another way later: a
recompute decodes the records anew.
"""

_AVRO = """
`format: {avro: {schema: orders.avsc}}` declares records in Avro's
[binary encoding](https://avro.apache.org/docs/1.12.0/specification/#binary-encoding). `orders.avsc` is a file in the
folder `schemas` of the project. The schema itself may stand there, too, as JSON. It is that of a record.

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
"""


def page() -> str:
    """The text of the page."""
    return whole_page(
        "Formats",
        "docs/generate/formats.py and docs/generate/avro_contract.py",
        prose(_INTRODUCTION),
        heading(2, "Avro"),
        *_avro(),
    )


def _avro() -> Iterator[str]:
    yield prose(_AVRO)
    following = [
        (words, code(kind) if kind else "none: it cannot be a field") for words, _, kind in avro_contract.FOLLOWING
    ]
    yield table(["Avro", "field that follows"], following)
    yield heading(3, "What is rejected")
    yield _AVRO_RULES.strip()
    yield heading(3, "What each type takes")
    yield prose(
        "A declared type takes what it holds exactly. A value that it does not take rejects the record, and the reason "
        "has the value. These rows are examples; each of them is a test."
    )
    rows = [(row.avro, _value(row.value), _declared(row), _taken(row)) for row in avro_contract.ROWS]
    yield table(["Avro", "value", "declared", "becomes"], rows)


def _declared(row: avro_contract.Row) -> str:
    options = "".join(f", {name}: {json.dumps(value).strip(chr(34))}" for name, value in row.options.items())
    return code(f"{row.declared}{options}")


def _value(value: object) -> str:
    match value:
        case bytes():
            return code("0x" + value.hex())
        case str() | bool() | list() | dict():
            return code(json.dumps(value, ensure_ascii=False))
    return code(value)


def _taken(row: avro_contract.Row) -> str:
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
