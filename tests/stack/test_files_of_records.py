"""Files of records in the format of their source, sent to Kafka, imported, or read as they arrive: the same results."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fastavro
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import serving_layer
from hourline_core.model.hours import iso_text
from tests.stack.test_arriving_files import drain
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
REST = "event_time: at\nid: id\n"
METRIC = "measures: {events: count, spent: sum(ms)}\n"
FILES = {
    "hourline.yaml": 'name: records\nkafka: {bootstrap: "${KAFKA}"}\n',
    "schemas/visit.avsc": '{"type": "record", "name": "Visit", "fields": [{"name": "id", "type": "string"}, '
    '{"name": "ms", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}',
    "schemas/visit.proto": """\
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        message Visit { string id = 1; int64 ms = 2; google.protobuf.Timestamp at = 3; }
        """,
    "sources/logged.yaml": "topic: rec_text\nformat: {text: {pattern: '(?P<at>\\S+) (?P<id>\\S+) (?P<ms>\\d+)ms'}}\n"
    f"fields: {{id: string, ms: long, at: timestamp}}\n{REST}",
    "sources/listed.yaml": f"topic: rec_csv\nformat: {{csv: {{columns: [id, ms, at], delimiter: ';'}}}}\n"
    f"fields: {{id: string, ms: long, at: timestamp}}\n{REST}",
    "sources/sent.yaml": f"topic: rec_protobuf\nformat: {{protobuf: {{schema: visit.proto}}}}\n{REST}",
    "sources/stored.yaml": f"topic: rec_avro\nformat: {{avro: {{schema: visit.avsc}}}}\n{REST}",
    "sources/arrived.yaml": "files: {folder: in, settle: 0s}\n"
    "format: {text: {pattern: '(?P<at>\\S+) (?P<id>\\S+) (?P<ms>\\d+)ms'}}\n"
    f"fields: {{id: string, ms: long, at: timestamp}}\n{REST}",
    **{
        f"metrics/of_{name}.yaml": f"source: {name}\n{METRIC}"
        for name in ("logged", "listed", "sent", "stored", "arrived")
    },
}


def write_files(folder: Path, first: int, end: int) -> dict[str, Path]:
    """A file for each source with the visits from ``first`` up to ``end``, and one record that is none."""
    visits = [(f"v{number}", number, BEGIN + timedelta(minutes=number)) for number in range(first, end)]
    name = f"{first}"
    folder.mkdir(exist_ok=True)
    lines = [f"{iso_text(at)} {id} {ms}ms" for id, ms, at in visits]
    (folder / f"{name}.log").write_text("\n".join([*lines, "no visit"]))
    (folder / f"{name}.txt").write_text("".join(f"{id};{ms};{iso_text(at)}\r\n" for id, ms, at in visits) + "x;y\n")
    # As another program would write the message, whose classes only the compiler has.
    messages = io.BytesIO()
    for id, ms, at in visits:
        moment = Timestamp()
        moment.FromDatetime(at)
        body = moment.SerializeToString()
        content = b"\x0a" + bytes([len(id)]) + id.encode() + b"\x10" + _varint(ms) + b"\x1a" + bytes([len(body)]) + body
        messages.write(_varint(len(content)) + content)
    messages.write(b"\x02\x0a\x05")
    (folder / f"{name}.bin").write_bytes(messages.getvalue())
    schema = fastavro.schema.parse_schema(json.loads(FILES["schemas/visit.avsc"]))
    stored = io.BytesIO()
    fastavro.writer(stored, schema, [{"id": id, "ms": ms, "at": at} for id, ms, at in visits], codec="deflate")
    (folder / f"{name}.avro").write_bytes(stored.getvalue())
    return {
        "logged": folder / f"{name}.log",
        "listed": folder / f"{name}.txt",
        "sent": folder / f"{name}.bin",
        "stored": folder / f"{name}.avro",
    }


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


def test_files_of_records_are_read_alike_on_every_way(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path / "records", FILES), kafka, {})
    (project.root / "in").mkdir()
    imported, replayed = write_files(tmp_path / "files", 0, 100), write_files(tmp_path / "files", 80, 200)
    for source, file in imported.items():
        options = ["--format", "protobuf"] if source == "sent" else []
        project.command("import", str(file), "--source", source, "--no-backfill", *options)
    for source, file in replayed.items():
        project.command(
            "replay", str(file), "--source", source, *(["--format", "protobuf"] if source == "sent" else [])
        )
    for file in (imported["logged"], replayed["logged"]):
        (project.root / "in" / file.name).write_bytes(file.read_bytes())
    drain(project)
    expected = [
        (BEGIN + timedelta(hours=hour), len(of_hour), sum(of_hour))
        for hour in range(4)
        if (of_hour := [number for number in range(200) if number // 60 == hour])
    ]
    with serving_layer.connect(project.project) as connection:
        for source in ("logged", "listed", "sent", "stored", "arrived"):
            assert (
                connection.sql(f"SELECT hour, events, spent FROM of_{source} ORDER BY hour").fetchall() == expected
            ), source
            rejected = connection.sql(f"SELECT count(*) FROM rejected_{source}").fetchall()
            assert rejected == [(0 if source == "stored" else 2,)], source
