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


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ("{avro: {schema: orders.avsc}}", "takes records in avro, and"),
        ("{json: {registry: true}}", "takes records in json that name schemas of a registry, and"),
    ],
)
def test_rows_of_files_are_not_sent_to_a_topic_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str, said: str
) -> None:
    source = f"topic: o\nformat: {format}\nevent_time: at\nfields: {{at: string}}\n"
    folder = write_project(tmp_path, {**FILES, "sources/orders.yaml": source})
    (line,) = Failing(monkeypatch, capsys).lines("replay", "rows.jsonl", "--source", "orders", folder=folder, status=2)
    assert line.endswith(
        f"source 'orders' {said} `hourline replay` sends JSON: send them with a producer of that format"
    )
