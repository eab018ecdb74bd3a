"""The topic of a sink is neither deleted by mistake nor filled by hand. No Kafka is asked for that."""

from pathlib import Path

import pytest

from tests.support.command_line import Failing
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": 'name: shop\nkafka: {bootstrap: "127.0.0.1:1"}\n',
    "sources/taps.yaml": "topic: taps\nevent_time: at\nfields: {at: timestamp, n: int}\n",
    "metrics/counted.yaml": "source: taps\nmeasures: {taps: count}\n",
    "sinks/out.yaml": "metric: counted\ntopic: results\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_project(tmp_path, FILES)


def test_the_topic_of_a_sink_is_deleted_only_when_its_loss_is_accepted(folder: Path, failing: Failing) -> None:
    assert failing.sentence("topics", "delete", "results", "--yes", folder=folder).endswith(
        "sink 'out' sends to topic 'results'; add --accept-loss to delete it: "
        "the sink then sends all results again, to a new topic"
    )
    accepted = failing.sentence("topics", "delete", "results", "--yes", "--accept-loss", folder=folder, status=75)
    assert "Kafka at 127.0.0.1:1" in accepted


def test_records_for_the_topic_of_a_sink_are_refused(folder: Path, failing: Failing) -> None:
    lines = folder / "lines.jsonl"
    lines.write_text('{"value": "a"}\n')
    assert failing.sentence("topics", "produce", "results", str(lines), folder=folder).endswith(
        "topic 'results' is that of sink 'out', which stops at a record that it has not sent; send to another topic"
    )
    other = failing.sentence("topics", "produce", "taps", str(lines), folder=folder, status=75)
    assert "Kafka at 127.0.0.1:1" in other


def test_mistakes_in_declarations_keep_no_record_back_where_there_is_no_sink(tmp_path: Path, failing: Failing) -> None:
    files = {"hourline.yaml": FILES["hourline.yaml"], "sources/taps.yaml": "topic: [\n"}
    said = failing.sentence("topics", "produce", "taps", folder=write_project(tmp_path, files), status=75)
    assert "Kafka at 127.0.0.1:1" in said
