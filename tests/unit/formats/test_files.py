"""What a replay reads: the records of a file come back as they were written, and a bad file is refused in one sentence."""

import gzip
import json
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.formats.files.reading import open_recording
from hourline_core.formats.files.record import moment_of, rank_of
from tests.support.data_files import (
    TEXT,
    Pack,
    as_csv,
    gzipped,
    plain,
    records,
    refusal,
    repeatable,
    rows,
    zipped,
)


def test_a_file_in_the_home_folder_of_nobody_is_not_there() -> None:
    assert refusal("~nobody-here/a.csv").startswith("there is no file ~nobody-here/a.csv")


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
    assert all(record.rank == rank_of(json.loads(record.payload or b"")["at"]) for record in read)


def test_times_are_ordered_as_moments_not_as_text(tmp_path: Path) -> None:
    times = ["2013-01-05T14:00:00+02:00", "2013-01-05T13:00:00Z", "2013-01-05 12:30", "2013-01-05"]
    content = "".join(f'{{"at": "{time}"}}\n' for time in times).encode()
    assert [record.line for record in records(plain(tmp_path / "a.jsonl", content), order_by="at")] == [4, 1, 3, 2]


def test_whole_numbers_beyond_a_doubles_digits_are_ordered_exactly(tmp_path: Path) -> None:
    numbers = [2**53 + offset for offset in (3, 1, 2, 0)]
    read = rows(plain(tmp_path / "a.csv", as_csv(["id"], [[str(number)] for number in numbers])), order_by="id")
    assert all(int(before["id"]) < int(after["id"]) for before, after in pairwise(read))


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


def test_an_ending_that_tells_no_format_asks_for_one(tmp_path: Path) -> None:
    file = plain(tmp_path / "events.dat", b"{}\n")
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
