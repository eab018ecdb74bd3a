"""The status over HTTP, and reads beside it, where Kafka does not answer."""

import errno
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner

from hourline.cli import app
from hourline.cli.status import Order, say_status
from hourline_core.model import Project
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.kafka_absence import KafkaAbsence, note_absence
from hourline_core.runtime.lease import lease
from hourline_core.runtime.registry_absence import RegistryAbsence, note_registry_absences
from hourline_core.runtime.running_recomputes import RecomputeProgress, Work, noting_recompute
from hourline_core.runtime.speed_end import note_end, noting_end
from hourline_core.runtime.topic_absence import note_absent_topics
from serving_layer.connection import Connection
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets, PartitionOffsets, SourceOffsets
from serving_layer.reports.status import report_project_status, report_status
from tests.support import visits as visited
from tests.support.bare_tables import BareTables
from tests.support.visits_tables import Visit, serving, visit_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("visits"), [Visit.of(0)], monkeypatch)
        tables.start()
        tables.micro_batch(1)
        yield tables


@pytest.fixture
def silent(tables: BareTables) -> Iterator[Project]:
    """The project with a Kafka that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = tables.project.settings
        kafka = settings.kafka.model_copy(update={"bootstrap": address})
        yield replace(tables.project, settings=settings.model_copy(update={"kafka": kafka}))


def test_a_source_that_has_started_and_read_nothing_has_counts_of_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0)], monkeypatch)
    tables.start()
    (known,) = report_project_status(tables.project, last=1).sources
    assert (known.sequence, known.records, known.accepted, known.late, known.clock) == (0, 0, 0, 0, None)


def test_the_status_says_that_a_silent_kafka_did_not_answer_within_its_limit(silent: Project) -> None:
    with serving(silent) as client:
        (over_http,) = client.get("/api/v1/status").json()["sources"]
    (here,) = report_project_status(silent, last=1).sources
    for lag, reason, accepted in (
        (over_http["lag"], over_http["lag_unknown"], over_http["accepted"]),
        (here.lag, here.lag_unknown, here.accepted),
    ):
        assert (lag, accepted) == (None, 1)
        assert "did not answer within 2 seconds" in str(reason)


def test_the_status_lists_each_source_before_the_first_start(silent: Project, tmp_path: Path) -> None:
    new = replace(silent, settings=silent.settings.model_copy(update={"workspace": tmp_path}))
    (source,) = report_project_status(new, last=1).sources
    assert (source.source, source.sequence, source.accepted, source.lag) == ("clicks", 0, 0, None)
    with Connection(new) as connection:
        waiting = {"clicks": SourceOffsets({"clicks": {0: PartitionOffsets(2, 5, held_back=3)}})}
        (source,) = report_status(connection, 1, waiting).sources
    assert (source.lag, source.in_transaction, source.lag_unknown) == (3, 3, None)


def test_the_status_says_that_the_projects_own_kafka_is_not_running(tables: BareTables) -> None:
    with serving(tables.project) as client:
        (source,) = client.get("/api/v1/status").json()["sources"]
    assert source["lag"] is None and "the embedded Kafka is not running" in source["lag_unknown"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)), "does not answer"),
        (KeyError("p"), "a fault of Hourline: KeyError: 'p'"),
        (OSError(errno.EMFILE, "Too many open files"), "`ulimit -n`"),
    ],
)
def test_whatever_kafkas_client_raises_is_one_sentence_of_the_status(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr("hourline_core.runtime.topics.find_topics", fail)
    monkeypatch.setattr("hourline_core.runtime.kafka.reachable_kafka", lambda project: "kafka:9092")
    (source,) = report_project_status(tables.project, last=1).sources
    assert (source.lag, source.accepted) == (None, 1)
    assert words in str(source.lag_unknown) and "\n" not in str(source.lag_unknown)
    assert str(error) in (tables.project.workspace / "logs" / "errors.log").read_text()


def test_a_look_up_that_never_ends_holds_up_no_status(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaOffsets, "look_up", lambda self: Future[Offsets]())
    (source,) = report_project_status(tables.project, last=1).sources
    assert source.lag is None and source.lag_unknown
    with serving(tables.project) as client:
        (served,) = client.get("/api/v1/status").json()["sources"]
    assert served["lag_unknown"] == source.lag_unknown


def test_reads_are_answered_while_a_status_waits_for_kafka(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, answer = Event(), Future[Offsets]()

    def look_up(self: KafkaOffsets) -> Future[Offsets]:
        self.seconds = 3600
        waiting.set()
        return answer

    monkeypatch.setattr(KafkaOffsets, "look_up", look_up)
    # One thread answers, one request of a client at a time is computed: a status that took the turn would keep it.
    with serving(tables.project, concurrent=1, per_client=1) as client, ThreadPoolExecutor(1) as pool:
        status = pool.submit(client.get, "/api/v1/status")
        waiting.wait()
        assert client.get("/api/v1/metrics/totals").status_code == 200
        assert not status.done()
        answer.set_result({"clicks": SourceOffsets({"clicks": {0: PartitionOffsets(0, 5)}})})
        (source,) = status.result().json()["sources"]
    assert (source["lag"], source["lag_unknown"]) == (4, None), "one of the five was read"


def test_the_status_says_since_when_kafka_has_been_away_and_from_when_to_when_it_was(tables: BareTables) -> None:
    workspace, since = tables.project.workspace, datetime(2024, 4, 1, 10, 0, 3, tzinfo=UTC)
    absence = KafkaAbsence(since, "no answer")
    with lease(workspace, "speed"), serving(tables.project) as client:
        note_absence(workspace, absence)
        away = client.get("/api/v1/status").json()
        note_absence(workspace, replace(absence, until=since + timedelta(minutes=1)))
        back = client.get("/api/v1/status").json()
    assert away["speed"].endswith("; Kafka has been away since 2024-04-01 10:00:03 UTC")
    assert away["kafka_away"]["reason"] == "no answer" and away["kafka_away"]["until"] is None
    assert back["speed"].endswith("; Kafka was away from 2024-04-01 10:00:03 to 2024-04-01 10:01:03 UTC")
    # What a process that has ended has left says nothing about now.
    assert report_project_status(tables.project, last=1).kafka_away is None
    with lease(workspace, "speed"):
        note_absence(workspace, None)
        assert report_project_status(tables.project, last=1).kafka_away is None


def test_the_status_says_which_source_waits_for_a_deleted_topic(tables: BareTables) -> None:
    workspace, since = tables.project.workspace, datetime(2024, 4, 1, 10, 0, 3, tzinfo=UTC)
    with lease(workspace, "speed"), serving(tables.project) as client:
        note_absent_topics(workspace, {"clicks": since, "another": since})
        (waiting,) = client.get("/api/v1/status").json()["sources"]
        note_absent_topics(workspace, {})
        (reading,) = client.get("/api/v1/status").json()["sources"]
    assert waiting["waits_for"] == [{"topic": "clicks", "since": "2024-04-01T10:00:03Z"}]
    assert reading["waits_for"] == []


def test_the_status_says_which_source_waits_for_the_schema_registry(tables: BareTables) -> None:
    workspace, since = tables.project.workspace, datetime(2024, 4, 1, 10, 0, 3, tzinfo=UTC)
    absence = RegistryAbsence(since, "the schema registry at http://registry does not answer")
    with lease(workspace, "speed"), serving(tables.project) as client:
        note_registry_absences(workspace, {"clicks": absence})
        waits = client.get("/api/v1/status").json()
        note_registry_absences(workspace, {"another": absence, "clicks": replace(absence, since=since + timedelta(1))})
        both = client.get("/api/v1/status").json()
        note_registry_absences(workspace, {})
        reads = client.get("/api/v1/status").json()
        note_registry_absences(workspace, {"clicks": absence})
    # What a process that has ended has left says nothing about now.
    ended = report_project_status(tables.project, last=1)
    assert waits["speed"].endswith("; source 'clicks' has waited for the schema registry since 2024-04-01 10:00:03 UTC")
    assert waits["sources"][0]["registry_away"] == {"since": "2024-04-01T10:00:03Z", "reason": absence.reason}
    (found,) = (one for one in waits["wrong"] if one["finding"] == "registry_away")
    assert (found["source"], found["severity"], found["since"]) == ("clicks", "fail", "2024-04-01T10:00:03Z")
    assert found["sentence"].endswith(f": {absence.reason}")
    assert both["speed"].endswith(
        "; 2 sources have waited for the schema registry, the first since 2024-04-01 10:00:03 UTC"
    )
    for known in (reads, ended.model_dump()):
        assert "registry" not in known["speed"]
        assert known["sources"][0]["registry_away"] is None
        assert "registry_away" not in {one["finding"] for one in known["wrong"]}


def test_the_status_says_how_the_last_speed_layer_has_ended_until_another_one_runs(tables: BareTables) -> None:
    workspace, at = tables.project.workspace, datetime(2024, 4, 1, 10, 0, 3, tzinfo=UTC)
    with pytest.raises(OSError, match="full"), lease(workspace, "speed"), noting_end(workspace):
        raise OSError("full")
    with serving(tables.project) as client:
        killed = client.get("/api/v1/status").json()
        note_end(workspace, at, "the disk is full")
        failed = client.get("/api/v1/status").json()
        with lease(workspace, "speed"):  # such as an import
            other = client.get("/api/v1/status").json()
        with lease(workspace, "speed"), noting_end(workspace):
            pass
        stopped = client.get("/api/v1/status").json()
    start = "the speed layer is not running; `hourline up` starts it"
    assert killed["speed"] == f"{start}; the last one ended without a word, as after `kill -9`; see logs/speed.log"
    assert failed["speed"] == f"{start}; the last one ended at 2024-04-01 10:00:03 UTC: the disk is full"
    assert failed["ended"] == {"at": "2024-04-01T10:00:03Z", "reason": "the disk is full"}
    assert other["speed"].startswith("the speed layer runs") and "ended at" not in other["speed"]
    assert (stopped["speed"], stopped["ended"]) == (start, None)


def test_the_status_shows_each_recompute_that_runs_and_none_that_has_ended(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "shop.backfill")
    monkeypatch.setenv("AIRFLOW_CTX_TASK_ID", "recompute")
    since, at = datetime(2024, 4, 1, 10, 0, 3, tzinfo=UTC), wall_clock()
    command = "hourline backfill --from 2024-03-01 --to 2024-03-02"
    progress = RecomputeProgress(
        at, Work(8, 8_000), Work(24, 1_008_000), timedelta(minutes=130), "clicks, chunk 2 of 5"
    )
    with noting_recompute(tables.project.workspace, command, since) as note, serving(tables.project) as client:
        note(progress)
        (running,) = client.get("/api/v1/status").json()["recomputing"]
        say_status(tables.project, report_project_status(tables.project, last=1), None, Order.NEED)
    assert 0 < running.pop("seconds_left") <= 7_800
    assert datetime.fromisoformat(running.pop("as_of")) == at
    assert running == {
        "process": os.getpid(),
        "command": command,
        "task": "shop.backfill.recompute",
        "since": "2024-04-01T10:00:03Z",
        "hours": 24,
        "hours_done": 8,
        "events": 1_008_000,
        "events_done": 8_000,
        "decoding": "clicks, chunk 2 of 5",
    }
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith(
        f"`{command}`, the task shop.backfill.recompute, has run since 2024-04-01 10:00:03 UTC (process {os.getpid()}): "
        "8 of 24 hours, 8,000 of 1,008,000 events done, about 2"
    )
    assert said[1].endswith("left; decodes anew: clicks, chunk 2 of 5")
    assert report_project_status(tables.project, last=1).recomputing == []


def test_the_last_hours_end_at_the_clock_and_a_wrong_date_is_one_line(tmp_path: Path) -> None:
    visits = visited.Visits(tmp_path)
    visits.start()
    visits.micro_batch(*(visited.Visit(number, "a", 5) for number in range(3)))
    visits.micro_batch(visited.Visit(24 * 365, "a", 5), moves_clock=False)
    with Connection(visits.project) as connection:
        status = report_status(connection, 2, {"visits": SourceOffsets({})})
    assert [one.hour for one in status.hours] == [visited.hour(1), visited.hour(2)]
    (ahead,) = status.ahead
    assert (ahead.hours, ahead.events, ahead.first, ahead.last) == (1, 1, far := visited.hour(24 * 365), far)
    said = CliRunner().invoke(app, ["status", "--project", str(visits.project.root)], catch_exceptions=False).stdout
    assert "visits: 1 event(s) are in 1 hour(s) after its clock, 2025-03-01T00:00Z" in said
    assert said.count("2025-03-01") == 3, "in that line alone"
