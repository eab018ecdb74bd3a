"""Read your writes: an answer waits until it counts what a producer was told, or says how far it is. (With Kafka and
the speed layer: tests/stack/test_at_least.py.)
"""

import asyncio
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

import serving_layer
from hourline.cli import app
from hourline_core.errors import BrokerError, HourlineError, NotCountedYetError, SourceError, UsageError
from hourline_core.ledger.progress_rows import Position, ProgressRow
from hourline_core.model import Source
from hourline_core.runtime.lease import lease
from serving_layer.at_least import awaited
from serving_layer.change_feed import Step
from serving_layer.http import at_least as over_http
from serving_layer.http.answering import Answering
from serving_layer.reports.kafka_offsets import KafkaOffsets, PartitionOffsets, SourceOffsets, Unknown
from serving_layer.snapshots import Snapshots
from tests.support.command_line import Failing, failing  # noqa: F401 (a fixture)
from tests.support.speed_process import wait_until
from tests.support.visits import Visit, Visits
from tests.support.visits_tables import serving

ADDRESS = "127.0.0.1:9092"
FORM = "allowed is TOPIC:PARTITION=OFFSET, such as flights:0=9977, with the offset that Kafka has told the producer, or now"
STOPPED = "the speed layer is not running; `hourline up` starts it"
ORDERS = "topic: orders\nfields: {at: string}\nevent_time: at\n"


class Kafka:
    """What Kafka answers when it is asked."""

    def __init__(self, end: int, topic_id: str = "topic-id", cluster: str | None = None, held_back: int = 0) -> None:
        there = {"visits": {0: PartitionOffsets(0, end, held_back), 1: PartitionOffsets(0, 0)}}
        self.answer: SourceOffsets | Unknown = SourceOffsets(there, {"visits": topic_id}, ADDRESS, cluster)
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def of(self, source: Source) -> SourceOffsets | Unknown:
        if source.name != "visits":
            return SourceOffsets({"orders": {0: PartitionOffsets(0, 0)}})
        answer = self.answer
        self.asked.set()
        assert self.answers.wait(600)
        return answer


Holding = Callable[..., Kafka]


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Holding:
    """Has Kafka hold so many records."""

    def hold(end: int, **facts: Any) -> Kafka:
        kafka = Kafka(end, **facts)
        monkeypatch.setattr(KafkaOffsets, "_of", lambda _, source: kafka.of(source))
        return kafka

    monkeypatch.setattr(awaited, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(over_http, "SETTLE_SECONDS", 0.0)
    return hold


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    """With two visits that are counted, at the offsets 0 and 1."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/orders.yaml").write_text(ORDERS)
    site = Visits(tmp_path)
    site.start()
    site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
    return site


def refusal(site: Visits, at_least: Any, query: str | None = None, wait: float = 0.0) -> HourlineError:
    with serving_layer.connect(site.project) as connection, pytest.raises(HourlineError) as refused:
        connection.wait_until_counted(at_least, wait, query)
    return refused.value


@pytest.mark.parametrize(
    ("at_least", "said"),
    [
        ("visits", f"got 'visits', {FORM}"),
        ("", f"got '', {FORM}"),
        ("visits:0=-1", f"got 'visits:0=-1', {FORM}"),
        ("visits:0=1.5", f"got 'visits:0=1.5', {FORM}"),
        ("visits:0=1,visits:1=2", f"got 'visits:0=1,visits:1=2', {FORM}"),
        ("visits:x=1", f"got 'visits:x=1', {FORM}"),
        ("visits:0=99999999999999999999", f"got 'visits:0=99999999999999999999', {FORM}"),
        ("visit:0=1", "no source reads topic 'visit' — did you mean 'visits'?"),
        ("x:0=1", "no source reads topic 'x' (there is: orders, visits)"),
        (
            "orders:0=1",
            "the query does not use source 'orders', which reads topic 'orders'; it uses 'visits' (visits): name a topic "
            "of these",
        ),
        (
            "visits:2=1",
            "there is no partition 2 in topic 'visits', which has 2, counted from 0: give the one that the producer was "
            "told",
        ),
        (
            "visits:0=5",
            f"Kafka does not hold offset 5 of visits:0, which ends before 5: give the offset that the Kafka at {ADDRESS} "
            'has told the producer for its record, or wait for what is there now, as by `hourline query "FROM hours" '
            "--at-least now`",
        ),
    ],
)
def test_what_cannot_come_is_refused_by_one_sentence(
    site: Visits,
    holding: Holding,
    failing: Failing,  # noqa: F811
    at_least: str,
    said: str,
) -> None:
    holding(5)
    assert failing.sentence("query", "FROM loads", "--at-least", at_least, folder=site.project.root) == said


def test_what_does_not_go_together_is_refused(
    site: Visits,
    holding: Holding,
    failing: Failing,  # noqa: F811
) -> None:
    holding(2)

    def said(*options: str) -> str:
        return failing.sentence("query", "FROM loads", *options, folder=site.project.root)

    past = "--at-least is about the newest result of tables without damage: leave out --as-of and --degraded"
    assert said("--at-least", "now", "--as-of", "p0-visits.1") == past
    assert said("--at-least", "now", "--degraded") == past
    assert said("--at-least", "now", "--at-least", "visits:0=1") == (
        "got now, visits:0=1; allowed is now alone, which stands for every partition"
    )
    alone = "--wait says how long --at-least waits: give that, too, or leave out --wait"
    for command in (["query", "FROM loads"], ["shell"], ["export", "x.duckdb"]):
        assert failing.sentence(*command, "--wait", "3", folder=site.project.root) == alone
    assert said("--at-least", "now", "--wait", "-1") == "got a wait of -1 seconds, allowed is a number from 0"
    assert said("--at-least", "now", "--wait", "nan") == "got a wait of nan seconds, allowed is a number from 0"
    with serving(site.project) as client:

        def refused(at_least: str, path: str = "metrics/loads", **headers: str) -> str:
            answer = client.get(f"/api/v1/{path}", headers={"Hourline-At-Least": at_least, **headers})
            assert answer.status_code == 400
            return str(answer.json()["error"])

        assert refused("now", "metrics/loads?as_of=p0-visits.1") == (
            "Hourline-At-Least is about the newest result: leave out as_of"
        )
        assert refused("now, visits:0=1") == (
            "got now, visits:0=1; allowed is now alone, which stands for every partition"
        )
        assert refused("visits") == f"got 'visits', {FORM}"
        assert refused("visits:0=1,") == f"got '', {FORM}"
        assert refused("orders:0=1").startswith("the query does not use source 'orders', which reads topic 'orders'; ")
        assert refused("visits:0=2").startswith("Kafka does not hold offset 2 of visits:0, which ends before 2: give ")
        for wait in ("x", "-1", "301", "1.5", ""):
            assert refused("now", Prefer=f"wait={wait}") == (
                f"got Prefer: wait={wait}, allowed is a number of seconds from 0 to 300"
            )


def test_an_answer_says_how_far_each_partition_is_when_the_time_is_over(
    site: Visits,
    holding: Holding,
    failing: Failing,  # noqa: F811
) -> None:
    holding(9)
    far = "source 'visits' has counted up to offset 1 of visits:0, asked for is"
    line = failing.sentence(
        *("query", "FROM loads", "--at-least", "visits:0=4", "--at-least", "visits:0=7", "--wait", "0"),
        folder=site.project.root,
        status=75,
    )
    assert line == f"not all is counted after 0 s: {far} 7: {STOPPED}"
    with lease(site.project.workspace, "speed"):
        assert str(refusal(site, "now")) == f"not all is counted after 0 s: {far} 8: ask again, or wait longer"
    with serving(site.project) as client:
        answer = client.get("/api/v1/metrics/loads", headers={"Hourline-At-Least": "now", "Prefer": "wait=0"})
    assert (answer.status_code, answer.headers["retry-after"]) == (504, "1")
    assert answer.json() == {"error": f"not all is counted after 0 s: {far} 8: {STOPPED}"}


def test_an_answer_waits_until_the_record_is_counted(site: Visits, holding: Holding) -> None:
    kafka = holding(3)

    def answer() -> list[tuple[int]]:
        with serving_layer.connect(site.project, at_least={("visits", 0): 2}) as connection:
            return connection.sql("SELECT sum(visits)::INT FROM loads").fetchall()

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(answer)
        assert kafka.asked.wait(600)
        site.micro_batch(Visit(0, "home", 7))
        assert waiting.result() == [(3,)]


@pytest.mark.parametrize("command", [["shell"], ["export", "out.duckdb"]])
def test_a_prompt_and_an_export_begin_when_the_record_is_counted(
    site: Visits,
    holding: Holding,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    kafka = holding(3)
    monkeypatch.chdir(site.project.root)
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT sum(visits)::INT AS visits FROM loads;"))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(app, [*command, "--at-least", "visits:0=2"], standalone_mode=False)
        assert kafka.asked.wait(600)
        site.micro_batch(Visit(0, "home", 7))
        waiting.result()
    if command == ["shell"]:
        assert capsys.readouterr().out.split() == ["visits", "3"]
    else:
        with duckdb.connect("out.duckdb", read_only=True) as exported:
            assert exported.sql("SELECT sum(visits)::INT FROM loads").fetchall() == [(3,)]


def test_what_is_counted_already_needs_no_wait(site: Visits, holding: Holding) -> None:
    holding(2)
    with serving_layer.connect(site.project, at_least="now", wait=0) as connection:
        assert connection.token == "p0-visits.1"  # noqa: S105
        connection.wait_until_counted({("visits", 0): 1}, wait=0, query="FROM loads")
        connection.wait_until_counted({}, wait=0)
        with pytest.raises(UsageError, match="got 'visits:=1', allowed is TOPIC:PARTITION=OFFSET"):
            connection.wait_until_counted({"visits": 1}, wait=0)  # type: ignore[dict-item]
        # Another process has written meanwhile.
        site.micro_batch(Visit(0, "home", 7))
        holding(3)
        connection.wait_until_counted("now", wait=0)
        assert connection.token == "p0-visits.2"  # noqa: S105


def test_without_kafka_progress_alone_says_what_is_counted(site: Visits, holding: Holding) -> None:
    holding(2).answer = Unknown("Kafka is away")
    with serving_layer.connect(site.project, at_least={("visits", 0): 1}, wait=0):
        pass
    far = "source 'visits' has counted up to offset 1 of visits:0, asked for is 9"
    refused = refusal(site, {("visits", 0): 9})
    assert (type(refused), str(refused)) == (
        NotCountedYetError,
        f"not all is counted after 0 s: {far}: {STOPPED}; Kafka could not be asked: Kafka is away",
    )
    refused = refusal(site, "now", "FROM loads")
    assert (type(refused), str(refused)) == (
        BrokerError,
        "what Kafka holds now for source 'visits' is not known: Kafka is away; name the offsets that the producer was "
        "told, which needs no Kafka, or leave out now",
    )
    with serving(site.project) as client:
        answer = client.get("/api/v1/metrics/loads", headers={"Hourline-At-Least": "now"})
    assert (answer.status_code, answer.json()["error"]) == (503, str(refused))


def test_a_topic_that_was_recreated_begins_anew(site: Visits, holding: Holding) -> None:
    holding(1, topic_id="another-id")
    nothing = "source 'visits' has counted nothing of visits:0, asked for is 0"
    assert str(refusal(site, {("visits", 0): 0})) == f"not all is counted after 0 s: {nothing}: {STOPPED}"
    assert isinstance(refusal(site, {("visits", 0): 1}), UsageError), "the topic before had it"


def test_another_kafka_than_the_one_that_was_read_is_refused(site: Visits, holding: Holding) -> None:
    (row,) = site.source_tables.progress.rows(0, 1)
    site.source_tables.finish(replace(row, sequence=site.sequence, offsets=(), hours=(), cluster="first"))
    holding(1, cluster="second")
    refused = refusal(site, {("visits", 0): 0})
    assert isinstance(refused, SourceError)
    assert f"the Kafka at {ADDRESS} is another one" in str(refused)


def test_an_open_transaction_holds_a_record_back(site: Visits, holding: Holding) -> None:
    holding(2, held_back=3)
    with lease(site.project.workspace, "speed"):
        assert str(refusal(site, {("visits", 0): 4})) == (
            "not all is counted after 0 s: source 'visits' has counted up to offset 1 of visits:0, asked for is 4, which "
            "an open transaction holds back: the producer must commit or abort its transaction first"
        )
    with serving_layer.connect(site.project, at_least="now", wait=0):
        pass  # It cannot be read yet.


def test_what_was_counted_before_a_reset_and_what_it_skips_needs_no_wait(site: Visits, holding: Holding) -> None:
    holding(20)

    def reset(offset: int) -> None:
        (last,) = site.source_tables.progress.rows(site.sequence - 1, site.sequence - 1) or [first]
        position = (Position(0, 2, offset),)
        row = ProgressRow.of_source_reset(
            last, site.sequence, ("topic-id", "visits"), position, (), site.clock, None, ()
        )
        site.source_tables.progress.reset([row], {}, of_metric=False)
        site.sequence += 1

    (first,) = site.source_tables.progress.rows(0, 1)
    reset(0)
    with serving_layer.connect(site.project, at_least={("visits", 0): 1}, wait=0) as connection:
        assert isinstance(refusal(site, {("visits", 0): 2}), NotCountedYetError)
        reset(10)
        connection.wait_until_counted({("visits", 0): 9}, wait=0)
    assert isinstance(refusal(site, {("visits", 0): 10}), NotCountedYetError)


def test_a_look_up_that_had_begun_before_the_question_does_not_answer_it(site: Visits, holding: Holding) -> None:
    kafka = holding(2)
    kafka.answers.clear()
    answering = Answering(site.project, Snapshots(site.project))

    async def ends() -> list[SourceOffsets | Unknown]:
        before = asyncio.create_task(answering.kafka_offsets_within_limit())
        await asyncio.to_thread(kafka.asked.wait, 60)
        kafka.answer = Kafka(3).answer
        asked = asyncio.create_task(answering.kafka_offsets_from_now())
        await asyncio.sleep(0)
        kafka.answers.set()
        return [(await one)["visits"] for one in (before, asked)]

    assert asyncio.run(ends()) == [Kafka(2).answer, Kafka(3).answer]


PATHS = [
    "metrics/loads",
    "metrics/loads?format=csv",
    "metrics/loads/hours/2024-03-01T00",
    "hours",
    "explain/loads/2024-03-01T00",
]


def test_over_http_a_wait_takes_no_turn_from_other_answers(site: Visits, holding: Holding) -> None:
    kafka = holding(3)
    with (
        serving(site.project, concurrent=1, sql=True) as client,
        ThreadPoolExecutor(len(PATHS) + 1) as threads,
    ):
        waits = [
            threads.submit(client.get, f"/api/v1/{path}", headers={"Hourline-At-Least": "visits:0=2"}) for path in PATHS
        ]
        sql, header = {"sql": "FROM loads"}, {"Hourline-At-Least": "visits:0=2"}
        waits.append(threads.submit(client.post, "/api/v1/sql", json=sql, headers=header))
        assert kafka.asked.wait(600)
        assert client.get("/api/v1/project").json()["token"] == "p0-visits.1"  # noqa: S105
        assert not any(wait.done() for wait in waits)
        site.micro_batch(Visit(0, "home", 7))
        answers = [wait.result() for wait in waits]
        assert [answer.status_code for answer in answers] == [200] * len(waits)
        assert {answer.headers.get("hourline-token", "p0-visits.2") for answer in answers} == {"p0-visits.2"}
        wrong = client.post("/api/v1/sql", json={"sql": "FROM loads"}, headers={"Hourline-At-Least": "orders:0=0"})
        assert (wrong.status_code, wrong.json()["error"][:39]) == (400, "the query does not use source 'orders',")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("metrics/load", "there is no metric 'load' — did you mean 'loads'?"),
        ("hours?metric=load", "there is no metric 'load' — did you mean 'loads'?"),
        ("rejected/visit", "there is no source 'visit' — did you mean 'visits'?"),
    ],
)
def test_over_http_nobody_waits_for_what_is_not_there(site: Visits, holding: Holding, path: str, said: str) -> None:
    holding(3)
    with serving(site.project) as client:
        answer = client.get(f"/api/v1/{path}", headers={"Hourline-At-Least": "visits:0=2"})
    assert (answer.status_code, answer.json()["error"]) == (404, said)


def test_over_http_the_snapshot_of_the_answer_counts_the_record(
    site: Visits, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, renew, may_renew = holding(3), Snapshots.renew, threading.Event()

    def renewed(snapshots: Snapshots) -> Step | None:
        assert may_renew.wait(600)
        return renew(snapshots)

    monkeypatch.setattr(Snapshots, "renew", renewed)
    with serving(site.project) as client, ThreadPoolExecutor() as threads:
        site.micro_batch(Visit(0, "home", 7))
        header = {"Hourline-At-Least": "visits:0=2"}
        waiting = threads.submit(client.get, "/api/v1/metrics/loads?dimension=", headers=header)
        assert kafka.asked.wait(600)
        may_renew.set()
        answer = waiting.result().json()
    assert (answer["token"], answer["rows"][0]["visits"]) == ("p0-visits.2", 3)


def test_a_bounded_number_of_requests_waits_and_a_client_that_goes_ends_its_wait(
    site: Visits, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = holding(3)
    monkeypatch.setattr(over_http, "PER_CLIENT", 1)
    header = {"Hourline-At-Least": "visits:0=2"}
    with serving(site.project) as client, ThreadPoolExecutor() as threads:
        gone = httpx.Client(base_url=client.base_url, timeout=0.5)
        with pytest.raises(httpx.ReadTimeout):
            gone.get("/api/v1/metrics/loads", headers=header)
        gone.close()
        kafka.asked.clear()
        first = threads.submit(client.get, "/api/v1/metrics/loads", headers=header)

        def waits() -> bool:
            nonlocal first
            if first.done() and first.result().status_code == 429:
                first = threads.submit(client.get, "/api/v1/metrics/loads", headers=header)
            return kafka.asked.is_set()

        wait_until(waits, "the place of the client that has gone is not free")
        second = client.get("/api/v1/metrics/loads", headers=header)
        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        assert second.json()["error"] == (
            "1 requests of yours wait for records to be counted, 1 in all; allowed are 1 and 64: try again when some are "
            "answered"
        )
        site.micro_batch(Visit(0, "home", 7))
        assert first.result().status_code == 200


def test_a_server_that_stops_ends_the_waits(site: Visits, holding: Holding) -> None:
    kafka = holding(3)
    with ThreadPoolExecutor() as threads:
        with serving(site.project) as client:
            path, header = f"{client.base_url}/api/v1/metrics/loads", {"Hourline-At-Least": "visits:0=2"}
            waiting = threads.submit(httpx.get, path, headers=header, timeout=600)
            assert kafka.asked.wait(600)
        answer = waiting.result()
    assert (answer.status_code, answer.json()) == (503, {"error": "the server is being stopped"})
