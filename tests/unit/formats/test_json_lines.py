"""What a replay reads of a JSON lines file: its lines, byte for byte; and which files are refused as a whole."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.data_files import Pack, packings, plain, records, refusal, repeatable

MARK = b"\xef\xbb\xbf"


@packings
@repeatable
@given(
    lines=st.lists(
        st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r").replace(MARK, b"")), min_size=1
    )
)
def test_json_lines_come_back_byte_for_byte_garbage_and_empty_ones_too(
    tmp_path: Path, pack: Pack, lines: list[bytes]
) -> None:
    read = records(pack(tmp_path / "a.jsonl", b"".join(line + b"\n" for line in [b"{}", *lines])))
    assert [record.payload for record in read] == [b"{}", *lines]
    assert [record.line for record in read] == list(range(1, len(lines) + 2))


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a":1}\r\n{"a":2}', b'{"a":1}\n{"a":2}\n', b'{"a":1}\n{"a":2}'])
def test_line_ends_and_the_byte_order_mark_are_no_part_of_a_record(tmp_path: Path, content: bytes) -> None:
    assert [record.payload for record in records(plain(tmp_path / "a.ndjson", content))] == [b'{"a":1}', b'{"a":2}']


def lines_of(path: Path, content: bytes) -> list[bytes]:
    return [record.payload or b"" for record in records(plain(path, content))]


@pytest.mark.parametrize("ending", ["json", "jsonl", "ndjson"])
@pytest.mark.parametrize(
    ("content", "line"),
    [(b'[{"a":1}]', 1), (b'\n \n[\n{"a":1},\n{"a":2}\n]\n', 3), (MARK + b"[]", 1), (b'["a",1]\n["b",2]\n', 1)],
)
def test_a_json_array_is_refused_with_the_way_to_turn_it_into_lines(
    tmp_path: Path, ending: str, content: bytes, line: int
) -> None:
    said = refusal(plain(tmp_path / f"a.{ending}", content))
    assert f"line {line}: got a JSON array, allowed is one JSON object a line" in said
    assert said.endswith("jq -c '.[]'")


DEEP = {"a": {}, "b": [1, [], {"c": "} ]", "d": '"\\'}, True, None, -1.5e3], "e\n": {"f": {"g": [[{"h": 1}]]}}}


@pytest.mark.parametrize("before", [b"", b'{"a":1}\n', b'garbage\n{"cut": 1,\n', b'{\n{"cut\n'])
@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"a":2}\n'])
@pytest.mark.parametrize("indent", [0, 2, "\t"])
def test_an_object_that_is_spread_over_lines_is_refused_with_its_lines(
    tmp_path: Path, before: bytes, end: bytes, indent: int | str
) -> None:
    spread = json.dumps(DEEP, indent=indent).encode()
    first = before.count(b"\n") + 1
    said = refusal(plain(tmp_path / "a.jsonl", before + spread + end))
    assert f"line {first}: got a JSON object that goes on to line {first + spread.count(bytes([10]))}" in said
    assert said.endswith("jq -c .")


def test_blank_lines_are_allowed_within_an_object_over_lines(tmp_path: Path) -> None:
    said = refusal(plain(tmp_path / "a.jsonl", b'{"a":\n\n \r\n1\n}\n'))
    assert "line 1: got a JSON object that goes on to line 5" in said


@pytest.mark.parametrize(
    "content",
    [
        b'{\n\n[]\n{"a":1}\n',
        b'{"a":1\n{"a":2}\n{"a":3\n{"a":4}\n',
        b'{"a":1,\n{"a":2}\n',
        b'{"a":"x\ny"}\n',
        b'{"a":\n]}\n{"b":}\n',
        b'{"a":[1,\n2}\n]\n',
        b'{"a": 01,\n"b": 2\n}\n',
        b'{"a":1}x\n{"a":1}{"b":2}\n',
    ],
)
def test_bad_lines_that_are_no_whole_object_together_stay_records(tmp_path: Path, content: bytes) -> None:
    assert lines_of(tmp_path / "a.jsonl", content) == content.split(b"\n")[:-1]


@repeatable
@given(
    parts=st.lists(
        st.sampled_from([b"{", b"}", b"[", b"]", b'"a":', b"1,", b'"', b"\n", b"\r\n", b" ", b"\\", b"x"]), max_size=40
    )
)
def test_only_a_file_with_a_whole_object_over_lines_is_refused_as_such(tmp_path: Path, parts: list[bytes]) -> None:
    content = b"".join([b"{}\n", *parts])
    file = plain(tmp_path / "a.jsonl", content)
    lines = content.removesuffix(b"\n").split(b"\n")
    spread = [
        (first + 1, last)
        for first in range(len(lines))
        for last in range(first + 2, len(lines) + 1)
        if lines[first].lstrip().startswith(b"{") and is_object(b"\n".join(lines[first:last]))
    ]
    assume(not spread or not lines[spread[0][0] - 1].rstrip().endswith(b"}"))
    if spread:
        assert f"line {spread[0][0]}: got a JSON object that goes on to line {spread[0][1]}" in refusal(file)
    else:
        assert [record.payload for record in records(file)] == [line.rstrip(b"\r") for line in lines]


def is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def test_a_long_line_that_is_cut_is_looked_at_once(tmp_path: Path) -> None:
    cut = b'{"a":' + b'\\"' * 400_000
    assert lines_of(tmp_path / "a.jsonl", cut + b"\n" + b"{\n" * 50_000)[0] == cut


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"a":1}\n' + MARK + b'{"a":2}\n', 2),
        (b'{"a":1}\n{"a":2}' + MARK + b'{"a":3}\n', 2),
        (MARK + MARK + b'{"a":1}\n', 1),
    ],
)
def test_a_byte_order_mark_where_files_were_joined_is_refused_with_its_line(
    tmp_path: Path, content: bytes, line: int
) -> None:
    assert f"line {line}: got a byte order mark" in refusal(plain(tmp_path / "a.jsonl", content))


def test_a_byte_order_mark_within_a_text_is_a_character(tmp_path: Path) -> None:
    line = b'{"a":"}' + MARK + b'{"}'
    assert lines_of(tmp_path / "a.jsonl", line + b"\n") == [line]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_another_encoding_is_named_with_the_way_to_convert_it(tmp_path: Path, name: str, encoding: str) -> None:
    content = ('{"a":1}\n' if name == "a.jsonl" else "a,b\n1,2\n").encode(encoding)
    said = refusal(plain(tmp_path / name, content))
    assert f"is {encoding[:6].upper()}" in said
    assert "allowed is UTF-8; convert it, as with iconv -f UTF-" in said
