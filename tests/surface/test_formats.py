"""What cannot be done with the records of another format than JSON is refused in one sentence."""

from pathlib import Path

import pytest

from tests.support.command_line import Failing
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nregistry: {url: "http://registry:8081"}\n',
    "schemas/orders.avsc": '{"type": "record", "name": "O", "fields": [{"name": "at", "type": "string"}]}',
    "metrics/pairs.yaml": "source: orders\nmeasures: {orders: count}\n",
    "rows.jsonl": '{"at": "2026-03-02T08:00:00Z"}\n',
}


PRODUCER = "send them with a producer of that format"


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ("{avro: {schema: orders.avsc}}", f"avro, X: give an Avro file of the same schema, or {PRODUCER}"),
        ("{csv: {columns: [at]}}", f"csv, X: give a file of rows without a header, with --format text, or {PRODUCER}"),
        ("{text: {pattern: '(?P<at>.*)'}}", f"text, X: give a file of lines, with --format text, or {PRODUCER}"),
        ("{json: {registry: true}}", f"json that name schemas of a registry, X: {PRODUCER}"),
    ],
)
def test_rows_of_files_are_not_sent_to_a_topic_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str, said: str
) -> None:
    source = f"topic: o\nformat: {format}\nevent_time: at\nfields: {{at: string}}\n"
    folder = write_project(tmp_path, {**FILES, "sources/orders.yaml": source})
    (line,) = Failing(monkeypatch, capsys).lines("replay", "rows.jsonl", "--source", "orders", folder=folder, status=2)
    makes = "and `hourline replay` makes JSON of rows.jsonl"
    assert line.endswith(f"source 'orders' takes records in {said.replace('X', makes)}")


@pytest.mark.parametrize("command", ["replay", "import"])
@pytest.mark.parametrize(
    ("format", "file", "said"),
    [
        (
            "json",
            "rows.log",
            "holds lines of text, which a source with `format: text or csv` reads; source 'orders' takes records in json: ",
        ),
        (
            "{csv: {columns: [at]}}",
            "rows.bin",
            "holds messages of Protobuf, which a source with `format: protobuf` reads; source 'orders' takes records in csv: ",
        ),
        (
            "{json: {registry: true}}",
            "rows.log",
            "takes records in json that name schemas of a registry: ",
        ),
    ],
)
def test_a_file_of_records_of_another_format_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    format: str,
    file: str,
    said: str,
) -> None:
    source = f"topic: o\nformat: {format}\nevent_time: at\nfields: {{at: string}}\n"
    written = {"rows.log": "a line\n", "rows.bin": "\x01a", "sources/orders.yaml": source}
    folder = write_project(tmp_path, {**FILES, **written})
    options = ["--format", "protobuf"] if file == "rows.bin" else []
    given = [file if command == "replay" else str(folder / file), "--source", "orders", *options]
    (line,) = Failing(monkeypatch, capsys).lines(command, *given, folder=folder, status=2)
    assert said in line
    instead = {"json": "say so, as in --format jsonl", "{csv: {columns: [at]}}": f"--format text, or {PRODUCER}"}
    of_import = "say so, as in --format jsonl"
    assert line.endswith(of_import if command == "import" else instead.get(format, PRODUCER))
