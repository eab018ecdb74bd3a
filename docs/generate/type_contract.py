"""Which JSON values each declared type takes: the rows of the reference's tables. Each row is tested at each depth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A JSON value, and what a type makes of it."""

    declared: str
    written: str
    taken: Any = None
    """The value as Python has it. None: it is refused."""

    options: Options = field(default_factory=dict)
    """What the field declares beside its type. Such a row is about a field itself, not about what is within one."""

    why: str = ""
    """What the reason says beside the value that was got."""


def _taken(declared: str, values: Mapping[str, Any], **options: Any) -> list[Row]:
    return [Row(declared, written, value, options) for written, value in values.items()]


def _refused(declared: str, *written: str, **options: Any) -> list[Row]:
    return [Row(declared, one, None, options) for one in written]


_NO_NUMBERS = ('"5"', "true", "{}", "[]", '""')
_LOCAL = {"encoding": "local", "zone": "America/New_York"}
_SECONDS, _MILLISECONDS = {"encoding": "epoch_seconds"}, {"encoding": "epoch_milliseconds"}
_HALF = "half of a surrogate pair in "
_BEYOND_64_BITS = "18446744073709551616"
_ARABIC = '"\u0661\u0662"'

ROWS: tuple[Row, ...] = (
    *_taken("string", {'"é"': "é", '""': "", r'"\u00e9\/\n"': "é/\n", r'"\u0000"': "\0", r'"\ud83d\ude00"': "😀"}),
    *_refused("string", "5", "true", "{}", '["a"]'),
    Row("string", r'"\ud83d"', why=_HALF),
    *_taken("int", {"5": 5, "-0": 0, "-2147483648": -2147483648, "2147483647": 2147483647}),
    *_refused("int", "2147483648", "-2147483649", "5.0", "5e0", _BEYOND_64_BITS, *_NO_NUMBERS),
    *_taken("long", {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1}),
    *_refused("long", "9223372036854775808", "-9223372036854775809", _BEYOND_64_BITS, "5.0", *_NO_NUMBERS),
    *_taken("double", {"1.5": 1.5, "5": 5.0, "-0.0": -0.0, "1e-400": 0.0, "0.1": 0.1, "9007199254740993": 2.0**53}),
    *_refused("double", "1e400", "-1e400", *_NO_NUMBERS, '"NaN"', '"Infinity"'),
    *_taken("float", {"1.5": 1.5, "0.1": 0.10000000149011612, "16777217": 16777216.0}),
    *_refused("float", "1e39", "-3.5e38", "1e400", *_NO_NUMBERS),
    *_taken("boolean", {"true": True, "false": False}),
    *_refused("boolean", '"true"', "1", "0", '""', "{}"),
    *_taken(
        "decimal(10,2)",
        {
            "1.5": Decimal("1.50"),
            '"1.5"': Decimal("1.50"),
            "1.500": Decimal("1.50"),
            '"007"': Decimal("7.00"),
            "-12345678.99": Decimal("-12345678.99"),
            "15e-1": Decimal("1.50"),
            "1E3": Decimal("1000.00"),
            "0e999999999": Decimal("0.00"),
        },
    ),
    *_refused("decimal(10,2)", "123456789", "1e999999999", "1e-999999999", '"1,50"', '",,,7"', '" 1"', '"1_0"'),
    *_refused("decimal(10,2)", _ARABIC, '"1e3"', '"+1"', '"1."', '".5"', '"NaN"', '""', "true", "{}", "[]"),
    *_refused("decimal(10,2)", "1.234"),
    *_taken(
        "decimal(10,2)", {"1.005": Decimal("1.01"), "-1.005": Decimal("-1.01"), '"1.0049"': Decimal("1.00")}, round=True
    ),
    *_refused("decimal(10,2)", "99999999.995", '"1,50"', round=True),
    *_taken(
        "date",
        {
            '"2013-01-05"': date(2013, 1, 5),
            '"2000-02-29"': date(2000, 2, 29),
            '"0001-01-01"': date(1, 1, 1),
            '"9999-12-31"': date(9999, 12, 31),
        },
    ),
    *_refused("date", '"2013-02-29"', '"2013-1-5"', '"0000-01-01"', '"20130105"', '"2013-01-05T00:00:00Z"'),
    *_refused("date", '" 2013-01-05"', '"2013-01-05\\n"', '""', "15710", "true"),
    *_taken(
        "timestamp",
        {
            '"2013-01-05T14:30:00Z"': datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
            '"2013-01-05 14:30:00+05:30"': datetime(2013, 1, 5, 9, 0, tzinfo=UTC),
            '"2013-01-05T14:30:00.5-23:59"': datetime(2013, 1, 6, 14, 29, 0, 500_000, tzinfo=UTC),
            '"2013-01-05T14:30:00.123456789Z"': datetime(2013, 1, 5, 14, 30, 0, 123_456, tzinfo=UTC),
            '"1969-12-31T23:59:59.9999999Z"': datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            '"0001-01-01T00:00:00Z"': datetime(1, 1, 1, tzinfo=UTC),
            '"9999-12-31T23:59:59.999999Z"': datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        },
    ),
    *_refused("timestamp", '"2013-01-05T14:30:00"', '"2013-01-05T14:30Z"', '"2013-01-05"', '"2013-02-29T00:00:00Z"'),
    *_refused("timestamp", '"2013-01-05t14:30:00Z"', '"2013-01-05T14:30:00z"', '"2013-01-05T14:30:00+0100"'),
    *_refused("timestamp", '" 2013-01-05T14:30:00Z"', '"2013-01-05T14:30:00 Z"', '"2013-01-05T24:00:00Z"'),
    *_refused("timestamp", '"2013-01-05T14:30:60Z"', '"2013-1-5T14:30:00Z"', '"+02013-01-05T14:30:00Z"'),
    *_refused("timestamp", '"2013-01-05T14:30:00.Z"', '"2013-01-05T14:30:00.1234567890Z"'),
    *_refused("timestamp", '"2013-01-05T14:30:00+24:00"', '"0001-01-01T00:00:00+00:01"', '"9999-12-31T23:59:59-00:01"'),
    *_refused("timestamp", '"now"', '""', "1357396200", "true", "{}"),
    *_taken(
        "timestamp",
        {
            '"2013-01-05T14:30:00"': datetime(2013, 1, 5, 19, 30, tzinfo=UTC),
            '"2013-03-10T02:30:00"': datetime(2013, 3, 10, 7, 30, tzinfo=UTC),
            '"2013-11-03 01:30:00"': datetime(2013, 11, 3, 5, 30, tzinfo=UTC),
        },
        **_LOCAL,
    ),
    *_refused("timestamp", '"2013-01-05T14:30:00Z"', '"2013-01-05T14:30"', '"2013-01-05"', "5", **_LOCAL),
    *_taken(
        "timestamp",
        {
            "1357396200": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
            '"1357396200.5"': datetime(2013, 1, 5, 14, 30, 0, 500_000, tzinfo=UTC),
            "1357396200.1234567": datetime(2013, 1, 5, 14, 30, 0, 123_456, tzinfo=UTC),
            "-0.0000001": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            "1.3573962e9": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
        },
        **_SECONDS,
    ),
    *_refused("timestamp", '"2013-01-05T14:30:00Z"', '"1e9"', "1e99", "1e999999999", "253402300800", **_SECONDS),
    *_taken(
        "timestamp",
        {
            "1357396200500": datetime(2013, 1, 5, 14, 30, 0, 500_000, tzinfo=UTC),
            '"1357396200500.25"': datetime(2013, 1, 5, 14, 30, 0, 500_250, tzinfo=UTC),
        },
        **_MILLISECONDS,
    ),
    *_refused("timestamp", '" 1"', _ARABIC, "true", "253402300800000", **_MILLISECONDS),
    *_taken(
        "json",
        {
            "1.50": "1.50",
            "-0": "-0",
            '"a"': '"a"',
            "true": "true",
            '{"b": 1E5, "a": [1, null]}': '{"a":[1,null],"b":1E5}',
            '{"a": 1, "a": 2}': '{"a":2}',
            r'"\u00e9\u0001\/"': r'"é\u0001/"',
            "123456789012345678901234567890": "123456789012345678901234567890",
        },
    ),
    Row("json", r'{"a": ["\ud83d"]}', why=_HALF),
    *_taken("array<int>", {"[]": [], "[1, null]": [1, None]}),
    *_refused("array<int>", "{}", '"[]"', "1"),
    *_taken("struct<a: int, b: string>", {"{}": {"a": None, "b": None}, '{"a":1,"A":2,"a":3}': {"a": 3, "b": None}}),
    *_refused("struct<a: int, b: string>", "[]", "[1]", '"{}"', "1"),
    *_taken("map<string, int>", {"{}": [], '{"k":1,"l":null,"k":2}': [("k", 2), ("l", None)]}),
    *_refused("map<string, int>", "[]", '"{}"', "1"),
)
