"""What cells of CSV, rows of CSV and texts become: the rows of the reference's tables. Each row is tested."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A cell of CSV, or a group of a pattern, and what a type makes of it."""

    declared: str
    written: str
    taken: Any = None
    """The value as Python has it. None: it is refused."""

    options: Options = field(default_factory=dict)
    """What the field declares beside its type."""

    got: str = ""
    """How the reason quotes the cell that was refused."""


@dataclass(frozen=True)
class CsvRow:
    """A record, and its cells in the columns a, b and c."""

    written: bytes
    cells: tuple[str | None, ...] | None = None
    """None: it is refused."""

    reason: str = ""
    options: Options = field(default_factory=dict)
    """What the format declares beside the columns."""


@dataclass(frozen=True)
class TextRow:
    """A record, and the groups that a pattern finds in it."""

    pattern: str
    written: bytes
    groups: Mapping[str, str | None] | None = None
    """None: it is refused."""

    reason: str = ""


def _taken(declared: str, values: Mapping[str, Any], **options: Any) -> list[Row]:
    return [Row(declared, written, value, options) for written, value in values.items()]


def _refused(declared: str, *written: str, as_written: tuple[str, ...] = (), **options: Any) -> list[Row]:
    """Refused cells. Those ``as_written`` are numbers, booleans or JSON, which a reason quotes without quotes."""
    return [
        *(Row(declared, one, None, options, json.dumps(one, ensure_ascii=False)) for one in written),
        *(Row(declared, one, None, options, one) for one in as_written),
    ]


_LOCAL: dict[str, Any] = {"encoding": "local", "zone": "America/New_York"}
_SECONDS: dict[str, Any] = {"encoding": "epoch_seconds"}
_MILLISECONDS: dict[str, Any] = {"encoding": "epoch_milliseconds"}
_NO_NUMBERS = ("007", "+1", " 1", "1.", ".5", "1_0", "1,5", "0x1F", "NaN", "Infinity", "n/a", "true")
_ARABIC = "\u0661\u0662"

CELLS: tuple[Row, ...] = (
    *_taken("string", {"é": "é", " a ": " a ", "007": "007", "null": "null", "{}": "{}", "\ufeff": "\ufeff"}),
    *_taken("int", {"5": 5, "-0": 0, "-2147483648": -(2**31), "2147483647": 2**31 - 1}),
    *_refused("int", *_NO_NUMBERS, _ARABIC, as_written=("2147483648", "-2147483649", "5.0", "5e0")),
    *_taken("long", {"999999999999999999": 10**18 - 1, "-9223372036854775808": -(2**63), str(2**63 - 1): 2**63 - 1}),
    *_refused("long", *_NO_NUMBERS, as_written=(str(2**63), str(-(2**63) - 1), "5.0", "1" + "0" * 30)),
    *_taken("double", {"1.5": 1.5, "5": 5.0, "-0.0": -0.0, "-0": 0.0, "1e-400": 0.0, "0.1": 0.1, "-2E+3": -2000.0}),
    *_taken("double", {"9007199254740993": 2.0**53, "0.30000000000000004": 0.1 + 0.2, "1" + "0" * 22: 1e22}),
    *_refused("double", *_NO_NUMBERS, as_written=("1e400", "-1e400")),
    *_taken("float", {"1.5": 1.5, "0.1": 0.10000000149011612, "16777217": 16777216.0, "1e10": 1e10}),
    *_refused("float", *_NO_NUMBERS, as_written=("1e39", "-3.5e38", "1e400")),
    *_taken("boolean", {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}),
    *_refused("boolean", "tRUE", "t", "1", "0", "yes", " true"),
    *_taken(
        "decimal(10,2)",
        {
            "1.5": Decimal("1.50"),
            "007": Decimal("7.00"),
            "-12345678.99": Decimal("-12345678.99"),
            "-0": Decimal("0.00"),
        },
    ),
    *_taken("decimal(10,2)", {"1.500": Decimal("1.50"), "0000000000001": Decimal("1.00")}),
    *_refused("decimal(10,2)", "1e3", "123456789", "1,50", "+1", "1.", ".5", " 1", "1_0", "NaN", "true", _ARABIC),
    *_refused("decimal(10,2)", "1.234"),
    *_taken("decimal(10,2)", {"1.005": Decimal("1.01"), "-1.005": Decimal("-1.01")}, round=True),
    *_refused("decimal(10,2)", "99999999.995", round=True),
    *_taken("decimal(2,2)", {"0.25": Decimal("0.25"), "-0.5": Decimal("-0.50")}),
    *_refused("decimal(2,2)", "1", "1.00"),
    *_taken("date", {"2013-01-05": date(2013, 1, 5), "2000-02-29": date(2000, 2, 29)}),
    *_refused("date", "2013-02-29", "2013-1-5", "20130105", "05.01.2013", " 2013-01-05", "15710"),
    *_taken(
        "timestamp",
        {
            "2013-01-05T14:30:00Z": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
            "2013-01-05 14:30:00+05:30": datetime(2013, 1, 5, 9, 0, tzinfo=UTC),
            "2013-01-05T14:30:00.123456789Z": datetime(2013, 1, 5, 14, 30, 0, 123_456, tzinfo=UTC),
        },
    ),
    *_refused("timestamp", "2013-01-05T14:30:00", "2013-01-05", "1357396200", "2013-02-29T00:00:00Z", " now"),
    *_refused("timestamp", "0001-01-01T00:00:00+00:01"),
    *_taken("timestamp", {"2013-01-05T14:30:00": datetime(2013, 1, 5, 19, 30, tzinfo=UTC)}, **_LOCAL),
    *_taken("timestamp", {"2013-03-10T02:30:00": datetime(2013, 3, 10, 7, 30, tzinfo=UTC)}, **_LOCAL),
    *_refused("timestamp", "2013-01-05T14:30:00Z", "2013-01-05T14:30", "5", **_LOCAL),
    *_taken(
        "timestamp",
        {
            "1357396200": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
            "1357396200.5": datetime(2013, 1, 5, 14, 30, 0, 500_000, tzinfo=UTC),
            "-0.0000001": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            "1.3573962e9": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
            "0001357396200": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
        },
        **_SECONDS,
    ),
    *_refused("timestamp", "2013-01-05T14:30:00Z", "007e5", '"5"', as_written=("1e99", "253402300800"), **_SECONDS),
    *_taken("timestamp", {"1357396200500": datetime(2013, 1, 5, 14, 30, 0, 500_000, tzinfo=UTC)}, **_MILLISECONDS),
    *_refused("timestamp", " 1", "true", as_written=("253402300800000",), **_MILLISECONDS),
    *_taken(
        "json",
        {
            "1.50": "1.50",
            '{"b": 1E5, "a": [1, null]}': '{"a":[1,null],"b":1E5}',
            "007": '"007"',
            "{a}": '"{a}"',
            '"a"': '"a"',
        },
    ),
    *_taken("array<int>", {"[1, null]": [1, None], "[]": []}),
    *_refused("array<int>", "1;2", as_written=("{}", "5")),
    *_taken("struct<a: int, b: string>", {'{"a": 1}': {"a": 1, "b": None}}),
    *_refused("struct<a: int, b: string>", "a=1", as_written=("[]",)),
    *_taken("map<string, int>", {'{"a": 1}': [("a", 1)]}),
    *_refused("map<string, int>", "{", as_written=("[]",)),
)

_SEMICOLON = {"delimiter": ";"}
_TAB = {"delimiter": "\t"}
_NA = {"null_text": "NA"}

CSV_ROWS: tuple[CsvRow, ...] = (
    CsvRow(b"1,x,2.5", ("1", "x", "2.5")),
    CsvRow(b"1,x,2.5\n", ("1", "x", "2.5")),
    CsvRow(b"1,x,2.5\r\n", ("1", "x", "2.5")),
    CsvRow(b"1,x,2.5\r", ("1", "x", "2.5")),
    CsvRow(b'"1","x","2.5"', ("1", "x", "2.5")),
    CsvRow(b',"",', (None, "", None)),
    CsvRow(b" 1 , x,\t", (" 1 ", " x", "\t")),
    CsvRow(b'"a,b","say ""hi""","1\r\n2"', ("a,b", 'say "hi"', "1\r\n2")),
    CsvRow(b'"""","a\n","\n"\n', ('"', "a\n", "\n")),
    CsvRow(b"1;x;2,5", ("1", "x", "2,5"), options=_SEMICOLON),
    CsvRow(b'1\t"x\ty"\t', ("1", "x\ty", None), options=_TAB),
    CsvRow(b'NA,"NA",na', (None, None, "na"), options=_NA),
    CsvRow(b',"",x', (None, None, "x"), options={"null_text": ""}),
    CsvRow("é,😀,\0".encode(), ("é", "😀", "\0")),
    CsvRow('a\ufeff,"\ufeffb",c'.encode(), ("a\ufeff", "\ufeffb", "c")),
    CsvRow(b"1,x", reason="got 2 of 3 cells: column 'c' has none"),
    CsvRow(b"\n", reason="got 1 of 3 cells: column 'b' has none"),
    CsvRow(b'"1,x,2"', reason="got 1 of 3 cells: column 'b' has none"),
    CsvRow(b"1,x,2,", reason="got more than 3 cells: another one is behind column 'c', at byte 6"),
    CsvRow(b"1;x;2", reason="got 1 of 3 cells: column 'b' has none"),
    CsvRow(b'1,"x,2', reason="column 'b': got a quote that is not closed, at byte 2"),
    CsvRow(b'1,"x"",2', reason="column 'b': got a quote that is not closed, at byte 2"),
    CsvRow(b'1,"x"y,2', reason="column 'b': got text behind the quote that closes the cell, at byte 5"),
    CsvRow(b'1,"x" ,2', reason="column 'b': got text behind the quote that closes the cell, at byte 5"),
    CsvRow(b'1, "x",2', reason="column 'b': got a quote in a cell without quotes around it, at byte 3"),
    CsvRow('é,5"x,2'.encode(), reason="column 'b': got a quote in a cell without quotes around it, at byte 4"),
    CsvRow(b"1,x,2\n3,y,4", reason="column 'c': got a line end in a cell without quotes around it, at byte 5"),
    CsvRow(b"1,x,2\n\n", reason="column 'c': got a line end in a cell without quotes around it, at byte 5"),
    CsvRow(b"1,x\ry,2", reason="column 'b': got a line end in a cell without quotes around it, at byte 3"),
    CsvRow(b'1,x,"2"\n\n', reason="column 'c': got text behind the quote that closes the cell, at byte 7"),
    CsvRow(b"\xef\xbb\xbf1,x,2", reason="column 'a': got a byte order mark, at byte 0"),
    CsvRow(b'1,\xef\xbb\xbf"x",2', reason="column 'b': got a byte order mark, at byte 2"),
    CsvRow(b"1,caf\xe9,2", reason="invalid UTF-8 at byte 5"),
    CsvRow(b"1,\xed\xa0\x80,2", reason="invalid UTF-8 at byte 2"),
    CsvRow(b"\xff\xfe1\0,\0", reason="invalid UTF-8 at byte 0"),
)

_ACCESS = r"(?P<host>\S+) (?:-|(?P<user>\S+)) (?P<status>\d{3})"
_NO_MATCH = "want a text that its pattern matches"

TEXT_ROWS: tuple[TextRow, ...] = (
    TextRow(_ACCESS, b"10.0.0.1 ann 200", {"host": "10.0.0.1", "user": "ann", "status": "200"}),
    TextRow(_ACCESS, b"10.0.0.1 - 404\n", {"host": "10.0.0.1", "user": None, "status": "404"}),
    TextRow(_ACCESS, b"10.0.0.1 - 404\r\n", {"host": "10.0.0.1", "user": None, "status": "404"}),
    TextRow(_ACCESS, b"10.0.0.1 - 4040", reason=f'got "10.0.0.1 - 4040", {_NO_MATCH}'),
    TextRow(_ACCESS, b" 10.0.0.1 - 404", reason=f'got " 10.0.0.1 - 404", {_NO_MATCH}'),
    TextRow(_ACCESS, b"10.0.0.1 - 404\n\n", reason=f'got "10.0.0.1 - 404\n", {_NO_MATCH}'),
    TextRow(_ACCESS, b"a\xff - 404", reason="invalid UTF-8 at byte 1"),
    TextRow("(?P<a>x+)", b"y" * 81, reason=f'got "{"y" * 80}…", {_NO_MATCH}'),
    TextRow("(?P<a>x*)(?P<b>y)?", b"\n", {"a": None, "b": None}),
    TextRow("(?P<a>x|xy)(?P<b>z?)", b"xy", {"a": "xy", "b": None}),
    TextRow("(?P<a>x)|(?P<b>.)", b"y", {"a": None, "b": "y"}),
    TextRow("(?P<a>.*)", "é 😀".encode(), {"a": "é 😀"}),
    TextRow("(?P<a>.*)", b"1\n2", reason=f'got "1\n2", {_NO_MATCH}'),
    TextRow("(?s)(?P<a>.*)", b"1\n2\n", {"a": "1\n2"}),
    TextRow("(?m)^(?P<a>.*)$", b"1\n2", reason=f'got "1\n2", {_NO_MATCH}'),
    TextRow(r"(?i)(?P<a>x)\s(?P<b>\x{1F600})", "X 😀".encode(), {"a": "X", "b": "😀"}),
    TextRow("(?P<a>.)", "\ufeff".encode(), {"a": "\ufeff"}),
)
