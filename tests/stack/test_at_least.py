"""Read your writes on the real stack: an answer counts the record that Kafka has told a producer the offset of."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import serving_layer
from hourline_core.errors import NotCountedYetError
from tests.stack.test_transactions import Transactions
from tests.support import parcels
from tests.support.oracle import Body, Sent
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject
from tests.support.visits_tables import serving

pytestmark = pytest.mark.long
"""tests/surface/test_at_least.py shows the same over tables."""

TOPIC = "at_least"
SQL = "SELECT sum(scans)::BIGINT AS scans FROM flow"


def scan(name: str) -> Body:
    return {"scan": name, "depot": "north", "at": "2024-05-06T20:00:00Z"}


def write(project: StackProject, partition: int | None = None) -> Sent:
    """Send one more scan, to any partition or this one, and return what Kafka has told the producer."""
    project.send("scans", [scan(f"scan {len(project.sent['scans'])}")], partition)
    return project.sent["scans"][-1]


def asked(project: StackProject, *at_least: str) -> int:
    options = [part for one in at_least for part in ("--at-least", one)]
    (row,) = json.loads(project.command("query", SQL, "--format", "json", *options))
    return int(row["scans"])


def over_http(client: httpx.Client, at_least: str) -> Any:
    parameters = {"dimension": "", "grain": "total", "measure": "scans"}
    rows = client.get("/api/v1/metrics/flow", params=parameters, headers={"Hourline-At-Least": at_least})
    free = client.post("/api/v1/sql", json={"sql": SQL}, headers={"Hourline-At-Least": at_least})
    assert (rows.status_code, free.status_code) == (200, 200), (rows.text, free.text)
    assert rows.json()["rows"][0]["scans"] == free.json()["rows"][0]["scans"]
    return rows.json()["rows"][0]["scans"]


def test_an_answer_counts_what_a_producer_was_told_is_written(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic=TOPIC, few=True)
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        for count in range(1, 4):
            told = write(project)
            assert asked(project, f"{TOPIC}:{told.partition}={told.offset}") == count
        with serving(project.project, sql=True) as client:
            for count in range(4, 7):
                told = write(project)
                assert over_http(client, f"{TOPIC}:{told.partition}={told.offset}") == count
            write(project)
            assert over_http(client, "now") == 7
        told = write(project)
        with serving_layer.connect(project.project, at_least={(TOPIC, told.partition): told.offset}) as connection:
            assert connection.sql(SQL).fetchall() == [(8,)]
        write(project)
        assert asked(project, "now") == 9

        # A transaction's record cannot be read before its end, which Kafka writes after it has answered the producer.
        transactions = Transactions(project, TOPIC)
        transactions.send([scan("in a transaction")], partition=0)
        opened = transactions.sent[-1]
        held_back = f"asked for is {opened.offset}, which an open transaction holds back"
        with serving_layer.connect(project.project) as connection, pytest.raises(NotCountedYetError, match=held_back):
            connection.wait_until_counted({(TOPIC, 0): opened.offset}, wait=0)
        assert asked(project, "now") == 9
        transactions.commit()
        assert asked(project, f"{TOPIC}:0={opened.offset}") == 10
        assert asked(project, "now") == 10
        speed.kill()

    last, told = told, write(project)  # which nobody reads
    stopped = "the speed layer is not running; `hourline up` starts it"
    with serving_layer.connect(project.project) as connection:
        with pytest.raises(NotCountedYetError, match=f"asked for is {told.offset}: {stopped}"):
            connection.wait_until_counted({(TOPIC, told.partition): told.offset}, wait=0)
        connection.wait_until_counted({(TOPIC, last.partition): last.offset}, wait=0)

    # The new topic begins anew, at offsets that were read of the other one.
    project.recreate("scans", 3)
    new = write(project, partition=last.partition)
    nothing = f"counted nothing of {TOPIC}:{last.partition}, asked for is {new.offset}"
    with serving_layer.connect(project.project) as connection, pytest.raises(NotCountedYetError, match=nothing):
        connection.wait_until_counted({(TOPIC, last.partition): new.offset}, wait=0)
