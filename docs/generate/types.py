"""The page of types: which JSON values each of them takes."""

import json
from collections.abc import Iterator
from datetime import datetime

from docs.generate.markdown import code, heading, prose, table
from docs.generate.markdown import page as whole_page
from docs.generate.type_contract import ROWS, Row
from hourline_core.formats.json.depth import DEEPEST
from hourline_core.lookups.read_postgres import NUMERIC_DIGITS, POSTGRES_TYPES

_INTRODUCTION = """
A record's value is exactly one JSON object in UTF-8. These tables say which JSON values each declared type takes, and
what they become. All other values are refused: the record is rejected, with the reason. The rules are the same for a
field, for a member of a struct, for an element of an array and for a value of a map.

`null` is null in each type, and so is a field or a member that is not there. `required: true` rejects an event whose
field is null.
"""

_DECLARING = """
A field has one of the types `string`, `int`, `long`, `float`, `double`, `boolean`, `timestamp`, `date`, `json`,
`decimal(p,s)`, `struct<name: type, …>`, `array<type>` and `map<string, type>`. Within a nested type, `integer`,
`bigint`, `smallint` and `tinyint` are allowed, too. The names in a JSON object are texts, so the keys of a map are. The
name of a member with other characters than letters from a to z, digits and `_` stands in backquotes. No two members of
a struct have the same name, apart from case; in the JSON object, case counts.
"""

_RULES: dict[str, str] = {
    "string": """
A text alone is a text. U+0000 is a character like any other one. Half of a surrogate pair is no character, and is
refused, as is invalid UTF-8.
""",
    "int": """
An integer is written without a point and without an exponent. `-0` is 0. `integer` is the same type, `tinyint` has 8
bits and `smallint` 16.
""",
    "long": """
`bigint` is the same type.
""",
    "double": """
Each JSON number is taken, and becomes the nearest double. A number beyond the largest double is refused. One below the
smallest becomes 0. `-0.0` stays -0.0, and `-0`, which is an integer, becomes 0.0.
""",
    "float": """
As `double`, with the nearest single-precision number.
""",
    "boolean": "",
    "decimal(10,2)": """
A decimal is exact. It is a JSON number, also with an exponent, or a plain number in quotes: ASCII digits, at most one
point with digits on both sides, and at most a minus sign. Zeros at either end do not count. A number with more digits
behind the point than declared is refused, or rounded if the field declares `round: true`: a half goes away from zero. A
number with more digits in front of the point is always refused. No part of a nested type is rounded.
""",
    "date": """
A date is a text `YYYY-MM-DD`, and a day of the calendar, from the year 1 to 9999.
""",
    "timestamp": """
A timestamp becomes UTC, with microseconds. `encoding: iso` is the default, and the only one within a nested type: a
text `YYYY-MM-DD`, `T` or one space, `HH:MM:SS`, at most nine digits of a second behind a point, and `Z` or an offset
such as `+01:00`. Digits beyond the microsecond are cut off. The years 1 to 9999 are allowed, as written and in UTC.

`encoding: local` is the same text without an offset, in `zone`. A time that a change of the clocks skips moves forward
by the change: 02:30 becomes 03:30. Of a time that there is twice, the earlier one is meant.

`encoding: epoch_seconds` and `epoch_milliseconds` are a JSON number, or a plain one in quotes as for a decimal, since
1970 in UTC. They are exact. What is below a microsecond is cut off, towards the earlier microsecond.
""",
    "json": """
Any value is kept as its text, in one canonical form: no white space, the names of each object sorted by code point, the
last value of a name that is there several times, numbers as they were written, texts with as few escapes as can be.
Numbers that are written differently stay different: `1.0` and `1`. Texts and names within it are checked as those of a
`string`. In Spark and in the tables, the type is `string`.
""",
    "array<int>": "",
    "struct<a: int, b: string>": """
Members that are not declared are ignored, as fields are.
""",
    "map<string, int>": """
A name that is there several times keeps the place of the first, with the last value.
""",
}

_RECORDS = f"""
A record with bytes before or after its object is refused, except for white space, and so is one with a byte order mark.
`NaN` and `Infinity` are no JSON, wherever they are.

If a name is in an object several times, the last value counts: for a field, for a member of a struct and in a map. An
earlier value must have the declared type, but its content is not looked at: of a `date` and a `timestamp` it must only
be a text, and of a `decimal`, an epoch and `json` it may be any value. Two declared fields with the same `key` read the
same value.

A record may have {DEEPEST} levels of objects and arrays within each other, the record itself being the first. The
number depends on nothing else.

Of a field that is not declared, only its end is looked for. It must be JSON, but these things are not looked at:
whether its texts and names are valid UTF-8, whether an escape is half of a surrogate pair, the number of digits and the
exponent of its numbers, the length of its name, and names that are there several times.

The reason of a refused record is its first fault, in the order of the record's bytes, as in
`field 'items[3].price': got "5", want double`. It quotes the value as it was written, up to 80 characters. Bytes are
counted from 0.
"""


_POSTGRES = f"""
A column of a [lookup](../guides/join.md) in PostgreSQL is of one of these types, or of a domain of one. All others are
refused with a sentence: a view may convert them. A time without a zone is none of these, and neither is `infinity`, in
whose place null is allowed. Of a `numeric`, {NUMERIC_DIGITS} digits behind the point are read for `int` and `long`.
"""


def page() -> str:
    """The page as Markdown. Raises LookupError if a type of the contract has no rules here, or the other way round."""
    if different := set(_RULES) ^ {row.declared for row in ROWS}:
        raise LookupError(f"with rules or with rows, not both: {', '.join(sorted(different))}")
    return whole_page(
        "Types",
        "docs/generate/types.py and docs/generate/type_contract.py",
        prose(_INTRODUCTION),
        heading(2, "Declaring a type"),
        prose(_DECLARING),
        heading(2, "A record"),
        prose(_RECORDS),
        heading(2, "What each type takes"),
        *(text for declared, rules in _RULES.items() for text in _type(declared, rules)),
        heading(2, "Columns of PostgreSQL"),
        prose(_POSTGRES),
        table(
            ["PostgreSQL", "declared"],
            [(code(name), ", ".join(map(code, of.declared))) for name, of in POSTGRES_TYPES.items()],
        ),
    )


def _type(declared: str, rules: str) -> Iterator[str]:
    rows = [row for row in ROWS if row.declared == declared]
    yield heading(3, declared.replace("<", "&lt;"))
    yield prose(rules)
    yield table(
        ["declared", "JSON", "becomes"],
        [(_declared(row), code(row.written), _shown(row)) for row in rows if row.taken is not None],
    )
    refused: dict[str, list[str]] = {}
    for row in rows:
        if row.taken is None:
            refused.setdefault(_declared(row), []).append(code(row.written))
    yield table(["declared", "refused"], [(kind, ", ".join(values)) for kind, values in refused.items()])


def _declared(row: Row) -> str:
    options = ", ".join(f"{name}: {json.dumps(value).strip(chr(34))}" for name, value in row.options.items())
    return code(f"{row.declared}, {options}" if options else row.declared)


def _shown(row: Row) -> str:
    value = row.taken
    match value:
        case bool():
            return code(json.dumps(value))
        case datetime():
            return code(value.isoformat().replace("+00:00", "Z"))
        case str():
            return code(json.dumps(value, ensure_ascii=False))
        case list() if row.declared.startswith("map"):
            return code("{" + ", ".join(f"{key}: {json.dumps(one)}" for key, one in value) + "}")
        case list() | dict():
            return code(json.dumps(value))
    return code(value)
