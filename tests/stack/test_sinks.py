"""Results that are sent to a topic of a real Kafka, to PostgreSQL, to a webhook and to a command."""

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # not in strict mypy's way
from confluent_kafka.schema_registry import SchemaRegistryClient

import serving_layer
from hourline_core.errors import HourlineError, SinkError
from hourline_core.model import Project, Sink
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.airflow.postgres import Postgres
from hourline_core.runtime.compacted_topic import ensure_compacted_topic
from serving_layer.sinks.sender import Sender, sent_file
from serving_layer.sinks.sent_results import SentResults
from tests.protocol.test_rollups import with_rollups
from tests.support.forked import start
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.sent_values import key_text
from tests.support.sent_visits import KILLED, made, send
from tests.support.sink_topic import compacted, deserializer_of, in_view, newest_of, read_json, read_topic
from tests.support.visits import Visit, Visits

COLUMNS = "page, slow, visits, mean_ms, worst, state"


def send_and_die(project: Project) -> None:
    """Killed after Kafka has it, and before it is noted."""

    def killed(*_: object, **__: object) -> None:
        os._exit(KILLED)

    SentResults.keep = killed  # type: ignore[method-assign] # in a process of its own
    send(project)


def check_topic(kafka: str, project: Project) -> None:
    (sink,) = project.sinks.values()
    assert sink.topic is not None
    with serving_layer.connect(project) as connection:
        assert newest_of(read_topic(kafka, sink.topic)) == in_view(connection, "loads")


def test_a_reader_has_each_change_once_whatever_was_killed_and_lost(tmp_path: Path, kafka: str) -> None:
    visits = made(tmp_path / "killed_sink", kafka, topic="killed-sink", partitions=3)
    killed = start(send_and_die, visits.project)
    killed.join()
    assert killed.exitcode == KILLED
    check_topic(kafka, visits.project)
    assert send(visits.project) == (0, 0), "what the killed process has sent is in the topic"
    visits.micro_batch(Visit(0, "a", 50), Visit(9, "c", 900, visit="x"))
    visits.micro_batch(Visit(9, "d", 900, visit="x", missed=True))
    assert send(visits.project) == (3, 0)
    visits.publish(9)
    sent_file(visits.project, visits.project.sinks["killed_sink"]).unlink()  # as after a restore
    assert send(visits.project) == (4, 1), "hour 9 is final, and the duplicate is gone"
    check_topic(kafka, visits.project)
    assert len(read_topic(kafka, "killed-sink")) == 4 + 3 + 4


def test_a_topic_that_is_not_of_the_sink_is_refused(tmp_path: Path, kafka: str) -> None:
    visits = made(tmp_path / "refused_sink", kafka, topic="of-somebody")
    ensure_compacted_topic(kafka, "of-somebody", 1, {})
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
    producer.produce("of-somebody", b"value", key=b"key")
    producer.flush()
    with pytest.raises(SinkError, match=r"record at partition 0, offset 0, sent at .*Z, which no sink has sent"):
        send(visits.project)
    client = AdminClient({"bootstrap.servers": kafka})
    client.create_topics([NewTopic("not-compacted", 1)])["not-compacted"].result()
    with pytest.raises(SinkError, match=r"cleanup\.policy=delete, allowed is compact"):
        send(with_target(visits.project, topic="not-compacted"))


def test_a_topic_that_is_made_again_gets_everything(tmp_path: Path, kafka: str) -> None:
    visits = made(tmp_path / "again_sink", kafka, topic="again-sink")
    sender = Sender(visits.project, visits.project.sinks["again_sink"], wall_clock)
    assert sender.send_changes(serving_layer.connect(visits.project)) == (4, 0)
    client = AdminClient({"bootstrap.servers": kafka})
    client.delete_topics(["again-sink"], operation_timeout=10)["again-sink"].result()
    ensure_compacted_topic(kafka, "again-sink", 1, {})
    visits.micro_batch(Visit(0, "a", 50))
    with pytest.raises(HourlineError):
        sender.send_changes(serving_layer.connect(visits.project))
    assert sender.send_changes(serving_layer.connect(visits.project)) == (4, 0)
    sender.close()
    check_topic(kafka, visits.project)
    # The topic before is read again from its beginning, though another one was in between.
    assert send(with_target(visits.project, topic="between")) == (4, 0)
    assert send(visits.project) == (0, 0)
    check_topic(kafka, visits.project)


def test_what_the_broker_does_not_take_is_named_and_sent_later(tmp_path: Path, kafka: str) -> None:
    client = AdminClient({"bootstrap.servers": kafka})
    small = {"cleanup.policy": "compact", "max.message.bytes": "200"}
    client.create_topics([NewTopic("small-values", 1, config=small)])["small-values"].result()
    visits = made(tmp_path / "small_sink", kafka, topic="small-values")
    with pytest.raises(SinkError, match=r"did not take the result {.*it has \d+ bytes.*max.message.bytes"):
        send(visits.project)
    assert read_topic(kafka, "small-values") == []
    assert send(with_target(visits.project, topic="larger-values")) == (4, 0)


def test_another_process_for_the_same_sink_ends_the_first(tmp_path: Path, kafka: str) -> None:
    visits = made(tmp_path / "fenced_sink", kafka, topic="fenced-sink")
    first = Sender(visits.project, visits.project.sinks["fenced_sink"], wall_clock)
    first.send_changes(serving_layer.connect(visits.project))
    elsewhere = {"tables": visits.project.tables, "workspace": tmp_path / "other"}
    other = replace(visits.project, settings=visits.project.settings.model_copy(update=elsewhere))
    assert send(other) == (0, 0)
    visits.micro_batch(Visit(0, "a", 50))
    with pytest.raises(SinkError, match="another process sends to topic 'fenced-sink'"):
        first.send_changes(serving_layer.connect(visits.project))
    first.close()
    assert len(read_topic(kafka, "fenced-sink")) == 4
    assert send(other) == (1, 0)
    check_topic(kafka, visits.project)


def with_target(project: Project, **target: Any) -> Project:
    (sink,) = project.sinks.values()
    return replace(project, sinks={sink.name: Sink.model_validate({"name": sink.name, "metric": "loads", **target})})


def test_kafka_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    visits = made(tmp_path / "away_sink", "127.0.0.1:1", topic="away")
    with pytest.raises(
        HourlineError, match=r"Kafka at 127.0.0.1:1 did not answer within 10 seconds, to look for topic"
    ):
        send(visits.project)


def test_a_table_of_postgresql_has_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server:
        monkeypatch.setenv("PGPASSWORD", "secret")
        url = server.url.replace(":secret@", "@")
        address = f"{url}{'&' if '?' in url else '?'}table=loads"
        visits = made(tmp_path / "pg_sink", "127.0.0.1:1", postgresql=address)
        assert send(visits.project) == (4, 0)
        visits.micro_batch(Visit(0, "a", 50), Visit(9, "c", 900, visit="x"))
        visits.micro_batch(Visit(9, "d", 900, visit="x", missed=True))
        assert send(visits.project) == (3, 0)
        visits.publish(9)
        sent_file(visits.project, visits.project.sinks["pg_sink"]).unlink()
        visits.publish(0)
        assert send(visits.project) == (5, 0), "nothing is known of what was sent: all is sent again"
        with psycopg.connect(server.url) as connection:
            assert in_table(connection) == in_results(visits), "and the row of what is gone is deleted"
            connection.execute("TRUNCATE loads")
            connection.commit()
            assert send(visits.project) == (5, 0)
            assert in_table(connection) == in_results(visits)
        assert send(with_target(visits.project, postgresql=address.replace("table=loads", "table=loads_2"))) == (5, 0)
        visits.micro_batch(Visit(9, "nul\0", 5))
        with pytest.raises(SinkError, match=r"cannot hold a text with the character U\+0000, as in {.*nul"):
            send(visits.project)


def in_table(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(f"SELECT {COLUMNS} FROM loads").fetchall(), key=repr)


def in_results(visits: Visits) -> list[tuple[Any, ...]]:
    with serving_layer.connect(visits.project) as results:
        return sorted(results.sql(f"SELECT {COLUMNS} FROM loads").fetchall(), key=repr)


class Hook(BaseHTTPRequestHandler):
    got: ClassVar[list[dict[str, Any]]] = []
    refuses: ClassVar[int] = 0

    def do_POST(self) -> None:
        body = read_json(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["X-Secret"] == "s"
        if len(Hook.got) == Hook.refuses:
            self.send_response(503)
        else:
            Hook.got.append(body)
            self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.got, Hook.refuses = [], -1
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/results"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_each_result_and_is_asked_again(tmp_path: Path, hook: str) -> None:
    visits = made(tmp_path / "hook_sink", "127.0.0.1:1", webhook={"url": hook, "headers": {"X-Secret": "s"}})
    Hook.refuses = 2
    with pytest.raises(SinkError, match=r"did not take the result .* it answered 503"):
        send(visits.project)
    assert len(Hook.got) == 2
    Hook.refuses = -1
    assert send(visits.project) == (2, 0)
    with serving_layer.connect(visits.project) as results:
        token, rows = results.token, in_view(results, "loads")
    assert {key_text(one["key"]): one["value"] for one in Hook.got} == rows
    assert {(one["sink"], one["metric"], one["token"]) for one in Hook.got} == {("hook_sink", "loads", token)}


def test_a_command_gets_each_result_and_its_failure_is_told(tmp_path: Path) -> None:
    script = tmp_path / "take.py"
    script.write_text(
        "import json, sys\n"
        "one = json.load(sys.stdin)\n"
        "if one['key']['page'] is None: sys.exit('no page')\n"
        "open('taken', 'a').write(json.dumps(one) + '\\n')\n"
    )
    visits = made(tmp_path / "command_sink", "127.0.0.1:1", command=[sys.executable, str(script)])
    with pytest.raises(SinkError, match=r"ended with status 1, allowed is 0, with the result .*: no page"):
        send(visits.project)
    script.write_text(script.read_text().replace("sys.exit('no page')", "pass"))
    send(visits.project)
    taken = [read_json(line) for line in (visits.project.root / "taken").read_text().splitlines()]
    with serving_layer.connect(visits.project) as results:
        rows = in_view(results, "loads")
    assert {key_text(one["key"]): one["value"] for one in taken} == rows
    assert len(taken) == len(rows), "none is given twice"


@pytest.mark.parametrize("format", ["avro", "protobuf", "json_schema"])
def test_a_topic_is_read_by_the_schemas_of_the_registry(tmp_path: Path, kafka: str, format: str) -> None:
    registry, topic = SchemaRegistry(), f"{format}-sink"
    with serve_registry(registry):
        visits = made(tmp_path / f"{format}_sink", kafka, registry.url, topic=topic, format=format)
        registry.refuses = "it is not compatible"
        with pytest.raises(SinkError, match=rf"schema of subject '{topic}-key': it is not compatible; give the sink"):
            send(visits.project)
        registry.refuses = None
        killed = start(send_and_die, visits.project)
        killed.join()
        assert killed.exitcode == KILLED
        assert send(visits.project) == (0, 0), "what was sent is told by its headers"
        visits.micro_batch(Visit(9, "d", 900, visit="x"), Visit(0, "a", 50))
        visits.micro_batch(Visit(9, "e", 900, visit="x", missed=True))
        assert send(visits.project) == (3, 0)
        visits.publish(9)
        assert send(visits.project) == (4, 1)
        client = SchemaRegistryClient({"url": registry.url})
        records = read_topic(kafka, topic, deserializer_of(format, client))
        with serving_layer.connect(visits.project) as results:
            assert newest_of(records) == in_view(results, "loads")
        with pytest.raises(SinkError, match="which this sink has sent in another format than json"):
            send(with_target(visits.project, topic=topic))


@pytest.mark.parametrize("format", ["avro", "protobuf"])
def test_keys_of_other_dimensions_are_gone(tmp_path: Path, kafka: str, format: str) -> None:
    registry, topic = SchemaRegistry(), f"{format}-dimensions"
    with serve_registry(registry):
        visits = made(tmp_path / f"{format}_dims", kafka, registry.url, topic=topic, format=format)
        sink = next(iter(visits.project.sinks.values())).model_copy(update={"metric": "kept"})
        visits.project = replace(visits.project, sinks={})
        client = SchemaRegistryClient({"url": registry.url})
        for dimensions in (["page", "slow"], ["page"], ["slow"], ["page", "slow"]):
            project = with_rollups(visits.project, kept={"dimensions": dimensions})
            project = replace(project, sinks={sink.name: sink})
            send(project)
            records = read_topic(kafka, topic, deserializer_of(format, client))
            with serving_layer.connect(project) as results:
                assert compacted(records) == in_view(results, "kept")
