"""What cannot be done with the records of another format than JSON is refused in one sentence."""

from pathlib import Path

import pytest

from tests.support.command_line import Failing
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\n',
    "schemas/orders.avsc": '{"type": "record", "name": "O", "fields": [{"name": "at", "type": "string"}]}',
    "sources/orders.yaml": "topic: o\nformat: {avro: {schema: orders.avsc}}\nevent_time: at\n",
    "metrics/pairs.yaml": "source: orders\nmeasures: {orders: count}\n",
    "rows.jsonl": '{"at": "2026-03-02T08:00:00Z"}\n',
}


def test_rows_of_files_are_not_sent_to_a_topic_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_project(tmp_path, FILES)
    (line,) = Failing(monkeypatch, capsys).lines("replay", "rows.jsonl", "--source", "orders", folder=folder, status=2)
    assert line.endswith(
        "source 'orders' takes records in avro, and `hourline replay` sends JSON: send them with a producer of that format"
    )
