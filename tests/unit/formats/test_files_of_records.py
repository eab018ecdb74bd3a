"""Files whose records are in the format of their source: lines of text, messages of Protobuf, and Avro as it is written.

The libraries of the formats write the files, and read the records.
"""

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import proto, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.formats.files.avro_rows import AvroRows
from hourline_core.formats.files.data_file import find_data_file
from hourline_core.formats.files.reading import open_recording, rows_of
from tests.support.avro import record_schema
from tests.support.data_files import Pack, packings, plain, repeatable

SCHEMA = record_schema(id="string", note=["null", "string"], numbers={"type": "array", "items": "long"})


def records(path: Path, format: Any = None) -> list[bytes]:
    rows = rows_of(find_data_file(str(path), format), None)
    read = [payload for _, payload in rows]
    assert rows.total == len(read)
    return read


@packings
@repeatable
@given(lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r")), min_size=1))
def test_each_line_is_a_record_byte_for_byte(tmp_path: Path, pack: Pack, lines: list[bytes]) -> None:
    path = pack(tmp_path / "access.log", b"".join(line + b"\n" for line in [b"first", *lines]))
    assert records(path) == [b"first", *lines]


def test_line_ends_and_the_byte_order_mark_are_no_part_of_a_line(tmp_path: Path) -> None:
    assert records(plain(tmp_path / "a.txt", b"\xef\xbb\xbfa;b\r\n\nc")) == [b"a;b", b"", b"c"]
    with pytest.raises(UsageError, match="is UTF-16, allowed is UTF-8"):
        records(plain(tmp_path / "b.txt", "ab\n".encode("utf-16")))


@repeatable
@given(st.lists(st.text(max_size=300), min_size=1))
def test_messages_of_protobuf_come_back_as_its_library_wrote_them(tmp_path: Path, texts: list[str]) -> None:
    messages, written = [struct_pb2.Value(string_value=text) for text in texts] + [struct_pb2.Value()], io.BytesIO()
    for message in messages:
        proto.serialize_length_prefixed(message, written)
    read = records(plain(tmp_path / "values.bin", written.getvalue()), "protobuf")
    assert [struct_pb2.Value.FromString(payload) for payload in read] == messages


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x03ab", "message 1: its length is 3 bytes, and 2 are left"),
        (b"\x01a\x80", "message 2: the file ends in its length"),
        (b"\x01a\xff\xff\xff\xff\xff\x01", "message 2: its length has more than 5 bytes"),
        (b"\xff\xff\xff\xff\x7f", "message 1: its length is 34,359,738,367 bytes, allowed are 1,073,741,824"),
    ],
)
def test_what_are_no_messages_behind_their_lengths_is_refused_as_a_whole(
    tmp_path: Path, content: bytes, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        records(plain(tmp_path / "values.bin", content), "protobuf")
    assert str(refused.value).endswith(
        f"values.bin: {said}; allowed are messages of Protobuf, each with its length in front"
    )


@pytest.mark.parametrize("codec", ["null", "deflate", "xz"])
def test_records_of_avro_are_the_bytes_that_its_library_reads(tmp_path: Path, codec: str) -> None:
    schema = fastavro.parse_schema(SCHEMA)
    events = [
        {"id": f"é{number}", "note": None if number % 2 else "n", "numbers": [number] * (number % 5)}
        for number in range(700)
    ]
    written = io.BytesIO()
    fastavro.writer(written, schema, events, codec=codec, sync_interval=500)
    (path := tmp_path / "a.avro").write_bytes(written.getvalue())
    with open_recording(str(path), avro_schema=declared_text(path)) as recording:
        payloads = [record.payload for record in recording.records]
    assert [fastavro.schemaless_reader(io.BytesIO(payload or b""), schema, None) for payload in payloads] == events


def declared_text(path: Path) -> str:
    """The schema as it is in the file."""
    with path.open("rb") as file:
        return str(fastavro.reader(file).metadata["avro.schema"])


def test_avro_of_another_schema_is_not_sent_as_it_is(tmp_path: Path) -> None:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(SCHEMA), [])
    (path := tmp_path / "a.avro").write_bytes(written.getvalue())
    with pytest.raises(UsageError, match="has another schema than its source"):
        AvroRows(find_data_file(str(path)), '{"type": "record", "name": "O", "fields": []}')


@pytest.mark.parametrize("name", ["order_by", "key", "partition"])
def test_such_records_have_no_columns(tmp_path: Path, name: str) -> None:
    path = plain(tmp_path / "a.log", b"x\n")
    with pytest.raises(UsageError) as refused, open_recording(str(path), **{name: "id"}):  # type: ignore[arg-type]
        pass
    assert str(refused.value).endswith("holds records as they are sent, which have no column 'id'; leave it out")
