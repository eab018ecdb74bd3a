"""What a replay reads: the records of a file come back as they were written, and a bad file is refused in one sentence."""

import csv
import gzip
import io
import json
import math
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.formats.files.reading import open_recording
from hourline_core.formats.files.record import Record, moment_of, rank_of

repeatable = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def records(path: Path | str, **options: Any) -> list[Record]:
    with open_recording(str(path), **options) as recording:
        read = list(recording.records)
    assert len(read) == recording.total
    return read


def rows(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(record.payload, parse_float=Decimal) for record in records(path, **options)]


def plain(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def gzipped(path: Path, content: bytes) -> Path:
    return plain(path.with_name(path.name + ".gz"), gzip.compress(content))


def zipped(path: Path, content: bytes) -> Path:
    packed = path.with_name(path.name + ".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(path.name, content)
    return packed


def refusal(path: Path | str, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        records(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


packings = pytest.mark.parametrize("pack", [plain, gzipped, zipped])
Pack = Callable[[Path, bytes], Path]


def test_a_file_in_the_home_folder_of_nobody_is_not_there() -> None:
    assert refusal("~nobody-here/a.csv").startswith("there is no file ~nobody-here/a.csv")


# JSON lines


@packings
@repeatable
@given(lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r")), min_size=1))
def test_json_lines_come_back_byte_for_byte_garbage_and_empty_ones_too(
    tmp_path: Path, pack: Pack, lines: list[bytes]
) -> None:
    read = records(pack(tmp_path / "a.jsonl", b"".join(line + b"\n" for line in [b"{}", *lines])))
    assert [record.payload for record in read] == [b"{}", *lines]
    assert [record.line for record in read] == list(range(1, len(lines) + 2))


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a":1}\r\n{"a":2}', b'{"a":1}\n{"a":2}\n', b'{"a":1}\n{"a":2}'])
def test_line_ends_and_the_byte_order_mark_are_no_part_of_a_record(tmp_path: Path, content: bytes) -> None:
    assert [record.payload for record in records(plain(tmp_path / "a.ndjson", content))] == [b'{"a":1}', b'{"a":2}']


def test_a_json_array_is_refused_with_the_way_to_turn_it_into_lines(tmp_path: Path) -> None:
    assert "jq" in refusal(plain(tmp_path / "a.json", b'[{"a":1}]'))


# CSV


def as_csv(header: list[str], cells: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, *cells])
    return text.getvalue().encode()


@packings
@repeatable
@given(cells=st.lists(st.lists(TEXT.map(lambda text: "x" + text), min_size=2, max_size=2), min_size=1))
def test_csv_text_comes_back_whatever_is_in_it(tmp_path: Path, pack: Pack, cells: list[list[str]]) -> None:
    assert rows(pack(tmp_path / "a.csv", as_csv(["100%", 'b "q"'], cells))) == [
        {"100%": a, 'b "q"': b} for a, b in cells
    ]


@repeatable
@given(numbers=st.lists(st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3), min_size=1))
def test_csv_numbers_come_back_exactly(tmp_path: Path, numbers: list[int | Decimal]) -> None:
    read = rows(plain(tmp_path / "a.csv", as_csv(["n"], [[f"{number:f}"] for number in map(Decimal, numbers)])))
    assert [row["n"] for row in read] == numbers


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2.50", "-3e2"], [1, Decimal("2.50"), Decimal("-3e2")]),
        (["1", "", "NA"], [1, None, None]),
        (["007", "10"], ["007", "10"]),
        (["+1", "1"], ["+1", "1"]),
        (["NA", "N1"], ["NA", "N1"]),
        (["true", "FALSE", ""], [True, False, None]),
        (["true", "1"], ["true", "1"]),
        (["2013-01-05T14:00:00Z", ""], ["2013-01-05T14:00:00Z", None]),
        (["2013-01-05 14:00", "x"], ["2013-01-05 14:00", "x"]),
        (["", "-"], [None, None]),
    ],
)
def test_a_csv_column_has_the_type_that_all_its_cells_have(
    tmp_path: Path, cells: list[str], values: list[object]
) -> None:
    file = plain(tmp_path / "a.csv", as_csv(["id", "v"], [["x", cell] for cell in cells]))
    assert [row["v"] for row in rows(file, null_text="-")] == values


def test_the_type_of_a_column_is_told_from_the_whole_file(tmp_path: Path) -> None:
    read = rows(plain(tmp_path / "a.csv", as_csv(["v"], [["1"]] * 5000 + [["x1"]])))
    assert {row["v"] for row in read} == {"1", "x1"}


def test_bytes_that_are_no_utf8_are_passed_on(tmp_path: Path) -> None:
    read = records(plain(tmp_path / "a.csv", b"a,b\nx,caf\xe9\n"))
    assert read[0].payload == b'{"a":"x","b":"caf\xe9"}'


def test_csv_mistakes_are_named_with_their_line_before_anything_is_read(tmp_path: Path) -> None:
    assert "got ';' between the columns" in refusal(plain(tmp_path / "s.csv", b"a;b\n1,5;2\n"))
    assert r"got '\t' between the columns" in refusal(plain(tmp_path / "t.csv", b"a\tb\n1\t2\n"))
    assert "line 3: got 1 cells, but the header names 2" in refusal(plain(tmp_path / "a.csv", b"a,b\n1,2\n3\n4,5\n"))
    assert "more than one column 'a'" in refusal(plain(tmp_path / "b.csv", b"a,a\n1,2\n"))
    assert "a quote that is not closed" in refusal(plain(tmp_path / "c.csv", b'a,b\n1,"2\n3,4\n'))
    assert "no header" in refusal(plain(tmp_path / "d.csv", b"\n\n"))


# Parquet


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@packings
def test_parquet_values_are_written_without_loss(tmp_path: Path, pack: Pack) -> None:
    moment = datetime(2013, 1, 5, 14, 0, 0, 250000, tzinfo=UTC)
    columns: dict[str, tuple[pa.DataType, Any, Any]] = {
        "whole": (pa.int64(), 2**63 - 1, 2**63 - 1),
        "unsigned": (pa.uint64(), 2**64 - 1, 2**64 - 1),
        "double": (pa.float64(), 0.1, Decimal("0.1")),
        "single": (pa.float32(), 0.1, Decimal("0.1")),
        "nan": (pa.float64(), math.nan, None),
        "infinite": (pa.float64(), -math.inf, None),
        "decimal": (pa.decimal128(38, 3), Decimal("12345678901234567890.120"), Decimal("12345678901234567890.120")),
        "yes": (pa.bool_(), True, True),
        "text": (pa.string(), 'é"\n', 'é"\n'),
        "zoned": (pa.timestamp("us", "America/New_York"), moment, "2013-01-05T14:00:00.250000Z"),
        "zoneless": (pa.timestamp("ms"), moment.replace(tzinfo=None), "2013-01-05T14:00:00.250"),
        "nanos": (pa.timestamp("ns", "UTC"), 1, "1970-01-01T00:00:00.000000001Z"),
        "day": (pa.date32(), date(2013, 1, 5), "2013-01-05"),
        "bytes": (pa.binary(), b"\xff\x00", "/wA="),
        "word": (pa.dictionary(pa.int32(), pa.string()), "JFK", "JFK"),
        "nested": (
            pa.struct({"a": pa.list_(pa.int32()), "b": pa.string()}),
            {"a": [1, None], "b": None},
            {"a": [1, None], "b": None},
        ),
        "lists": (pa.list_(pa.list_(pa.string())), [["a"], [], None], [["a"], [], None]),
        "map": (pa.map_(pa.string(), pa.int64()), [("k", 1), ("l", None)], {"k": 1, "l": None}),
        "counts": (pa.map_(pa.int32(), pa.string()), [(7, "x")], {"7": "x"}),
    }
    # Between nulls, so that the lengths of nested values count.
    table = pa.table({name: pa.array([None, value, None], kind) for name, (kind, value, _) in columns.items()})
    read = rows(pack(tmp_path / "a.parquet", as_parquet(table)))
    assert read[1] == {name: expected for name, (_, _, expected) in columns.items()}
    assert read[0] == read[2] == dict.fromkeys(columns)


@repeatable
@given(values=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_parquet_doubles_read_back_the_same(tmp_path: Path, values: list[float | None]) -> None:
    file = plain(tmp_path / "a.parquet", as_parquet(pa.table({"v": pa.array(values, pa.float64())})))
    assert [json.loads(record.payload)["v"] for record in records(file)] == values


def test_a_type_without_a_json_form_is_refused(tmp_path: Path) -> None:
    table = pa.table({"took": pa.array([1], pa.duration("s"))})
    assert "the column 'took' is of type duration[s]" in refusal(plain(tmp_path / "a.parquet", as_parquet(table)))


# Order, keys and partitions


MIXED = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.datetimes().map(str)
)


@settings(repeatable, max_examples=25)
@given(values=st.lists(MIXED, min_size=1))
def test_the_order_by_a_column_is_that_of_the_ranks_and_keeps_ties_in_the_files_order(
    tmp_path: Path, values: list[object]
) -> None:
    lines = [json.dumps({"at": value}).encode() for value in values]
    read = records(plain(tmp_path / "a.jsonl", b"\n".join(lines) + b"\n"), order_by="at")
    expected = sorted(range(len(values)), key=lambda index: (rank_of(values[index]), index))
    assert [record.line for record in read] == [index + 1 for index in expected]
    assert [record.payload for record in read] == [lines[index] for index in expected]
    assert all(record.rank == rank_of(json.loads(record.payload)["at"]) for record in read)


def test_times_are_ordered_as_moments_not_as_text(tmp_path: Path) -> None:
    times = ["2013-01-05T14:00:00+02:00", "2013-01-05T13:00:00Z", "2013-01-05 12:30", "2013-01-05"]
    content = "".join(f'{{"at": "{time}"}}\n' for time in times).encode()
    assert [record.line for record in records(plain(tmp_path / "a.jsonl", content), order_by="at")] == [4, 1, 3, 2]


def test_whole_numbers_beyond_a_doubles_digits_are_ordered_exactly(tmp_path: Path) -> None:
    numbers = [2**53 + offset for offset in (3, 1, 2, 0)]
    read = rows(plain(tmp_path / "a.csv", as_csv(["id"], [[str(number)] for number in numbers])), order_by="id")
    assert all(before["id"] < after["id"] for before, after in pairwise(read))


def test_lines_that_are_no_objects_go_last_in_an_order_and_have_no_key(tmp_path: Path) -> None:
    read = records(
        plain(tmp_path / "a.jsonl", b'garbage\n{"n":2,"k":"b"}\n\n[1]\n{"n":1,"k":7}\n'), order_by="n", key="k"
    )
    assert [(record.payload, record.key) for record in read] == [
        (b'{"n":1,"k":7}', b"7"),
        (b'{"n":2,"k":"b"}', b"b"),
        (b"garbage", None),
        (b"", None),
        (b"[1]", None),
    ]


def test_columns_of_nested_objects_are_named_with_dots(tmp_path: Path) -> None:
    file = plain(tmp_path / "a.jsonl", b'{"meta":{"at":2,"p":1}}\n{"meta":{"at":1}}\n')
    assert [(record.line, record.partition) for record in records(file, order_by="meta.at", partition="meta.p")] == [
        (2, None),
        (1, 1),
    ]
    assert "no column 'meta.att'" in refusal(file, key="meta.att")


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("1970-01-01T00:00:01+00:00", 1_000_000),
        ("1970-01-02", 86_400_000_000),
        (1.5, 1_500_000),
        (1357394400, 1357394400_000_000),
        (1357394400123, 1357394400123_000),
        ("later", None),
        ("20130105", None),
        ("9999-12-31T23:59:59-23:00", None),
        (10**400, None),
        (True, None),
        (None, None),
    ],
)
def test_a_moment_is_iso_text_or_seconds_or_milliseconds(value: object, micros: int | None) -> None:
    assert moment_of(rank_of(value)) == micros


# Files that cannot be replayed


def test_a_missing_file_is_named_with_a_near_one(tmp_path: Path) -> None:
    plain(tmp_path / "flights.csv", b"a\n1\n")
    assert "did you mean 'flights.csv'?" in refusal(tmp_path / "flihgts.csv")
    assert "nor its folder" in refusal(tmp_path / "nowhere" / "flights.csv")
    assert "is a folder" in refusal(tmp_path)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "csv.gz", "zip"])
def test_an_empty_file_is_refused(tmp_path: Path, ending: str) -> None:
    assert "is empty" in refusal(plain(tmp_path / f"a.{ending}", b""))


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv"])
def test_a_file_without_records_is_refused(tmp_path: Path, name: str) -> None:
    assert "holds no records" in refusal(
        plain(tmp_path / name, gzip.compress(b"") if name.endswith("gz") else b"a,b\n")
    )


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
@pytest.mark.parametrize("pack", [gzipped, zipped])
def test_a_truncated_or_damaged_file_is_refused_before_its_first_record(tmp_path: Path, pack: Pack, name: str) -> None:
    file = pack(tmp_path / name, b"".join(b"%d\n" % (number**7) for number in range(30000)))
    content = file.read_bytes()
    for broken in (content[: len(content) // 2], content[:2000] + bytes(3000) + content[5000:], b"no such thing" * 9):
        with pytest.raises(UsageError, match="copy or download it again"), open_recording(str(plain(file, broken))):
            raise AssertionError("it was opened")


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    whole = as_parquet(pa.table({"a": list(range(1000))}))
    for broken in (whole[:-20], b"PAR1" * 10, b"a,b\n1,2\n"):
        assert "is not a valid Parquet file" in refusal(plain(tmp_path / "a.parquet", broken))


def test_a_parquet_file_damaged_in_its_middle_is_refused_when_that_is_reached(tmp_path: Path) -> None:
    whole = as_parquet(pa.table({"a": [str(number**9) for number in range(50000)]}))
    broken = whole[:1000] + bytes(len(whole) // 2) + whole[1000 + len(whole) // 2 :]
    assert "is not a valid Parquet file" in refusal(plain(tmp_path / "a.parquet", broken))


def test_an_ending_that_tells_no_format_asks_for_one(tmp_path: Path) -> None:
    file = plain(tmp_path / "events.log", b"{}\n")
    assert "--format" in refusal(file)
    assert rows(file, format="jsonl") == [{}]


def test_a_zip_of_several_files_asks_which(tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("jan.csv", "feb.csv", "__MACOSX/._jan.csv", "README"):
            archive.writestr(name, f"name\n{name}\n")
    assert "2 files of records: jan.csv, feb.csv; choose a member, as in 'a.zip::jan.csv'" in refusal(packed)
    assert rows(f"{packed}::feb.csv") == [{"name": "feb.csv"}]
    assert "did you mean 'feb.csv'?" in refusal(f"{packed}::fab.csv")
    assert "leave '::x' out" in refusal(f"{plain(tmp_path / 'a.csv', b'a')}::x")


@pytest.mark.parametrize("role", ["order_by", "key", "partition"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_unknown_column_is_refused_with_a_near_one(tmp_path: Path, role: str, name: str) -> None:
    file = plain(
        tmp_path / name, b"carrier,origin\nUA,EWR\n" if name == "a.csv" else b'{"carrier":"UA","origin":"EWR"}\n'
    )
    assert "has no column 'carier' — did you mean 'carrier'?" in refusal(file, **{role: "carier"})
