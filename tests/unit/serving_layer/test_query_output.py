"""The rows of a query, for a table on the terminal and in the formats that programs read."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.model import Project, Settings
from serving_layer.query_output import fetch, write


@pytest.mark.parametrize("value", ["TIMESTAMPTZ 'infinity'", "TIMESTAMP '20000-01-01'", "DATE '-infinity'"])
def test_a_time_that_python_cannot_hold_gets_one_sentence(tmp_path: Path, value: str) -> None:
    with serving_layer.connect(Project(tmp_path, Settings(), {}, {})) as connection:
        with pytest.raises(
            UsageError, match=r"column 'far' has a time outside the years 1 to 9999, .* cast it to VARCHAR"
        ):
            fetch(connection, f"SELECT 1 AS n, {value} AS far")
        assert fetch(connection, f"SELECT ({value})::VARCHAR AS far").rows


BYTES = {
    b'{"n": "\xc3\xbc \xf0\x9f\x98\x80"}': '{"n": "ü 😀"}',
    b"{\n\t1\r\n}": "{\n\t1\r\n}",
    b"": "",
    None: None,
    b"\x00\x00\x00\x2a": "\\x00\\x00\\x00*",
    b"a\x1b[31m": "a\\x1B[31m",
    b"a\x7f": "a\\x7F",
    "a\u009b".encode(): "a\\xC2\\x9B",
    b"caf\xe9": "caf\\xE9",
}
"""Bytes, and how they are shown: as text, if they are UTF-8 without control characters."""


def test_bytes_are_shown_as_text_where_they_are_text(tmp_path: Path) -> None:
    values = ", ".join("(NULL)" if value is None else f"(unhex('{value.hex()}'))" for value in BYTES)
    query = f"SELECT value, 1.5::DOUBLE AS x FROM (VALUES {values}) AS t(value)"
    shown = list(BYTES.values())
    with serving_layer.connect(Project(tmp_path, Settings(), {}, {})) as connection:
        assert [value for value, _ in fetch(connection, query).rows] == shown
        write(connection, query, "json", tmp_path / "all.json")
        write(connection, query, "jsonl", tmp_path / "all.jsonl")
        write(connection, query, "csv", tmp_path / "all.csv")
        write(connection, query, "parquet", tmp_path / "all.parquet")
    assert [row["value"] for row in json.loads((tmp_path / "all.json").read_text())] == shown
    assert [json.loads(line)["value"] for line in (tmp_path / "all.jsonl").read_text().splitlines()] == shown
    with (tmp_path / "all.csv").open(newline="") as file:
        assert [row["value"] for row in csv.DictReader(file)] == [value or "" for value in shown]
    assert pq.read_table(tmp_path / "all.parquet")["value"].to_pylist() == list(BYTES)
