"""The whole record: its key, headers, timestamp and address are archived, and usable in every expression."""

import random
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 70}
        """,
    "sources/orders.yaml": """\
        topic: whole_records
        key_type: long
        fields: {n: int, at: timestamp}
        event_time: coalesce(at, record.timestamp)
        id: concat(record.headers['id'], record.key)
        derived: {delay: unix_millis(event_time) - unix_millis(record.timestamp)}
        where: record.headers['test'] is null
        partitions: 2
        """,
    "metrics/by_minute.yaml": """\
        source: orders
        dimensions:
          minute: date_trunc('minute', record.timestamp)
          trace: record.headers['trace']
          customer: record.key
        measures:
          n: sum(n)
          delay: max(delay)
          last: max(record.offset)
          never: sum(if(record.arrived is null, 1, null))
        """,
    "metrics/by_topic.yaml": """\
        source: orders
        dimensions: {topic: record.topic, partition: record.partition, type: record.timestamp_type}
        measures:
          orders: count
          traces: distinct(record.headers['trace'])
        where: record.key > 0
        """,
}
START = datetime(2024, 3, 1, 10, tzinfo=UTC)


def test_the_whole_record_is_usable_in_every_expression(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"orders": ORDERS})
    rand = random.Random(5)  # noqa: S311 (the same numbers each time)
    project.send_records("orders", [order(rand) for _ in range(200)])
    project.send_refused("orders", [b'{"n": "many"}', b'{"at": "2024-03-01 10:30:00"}'])
    project.send_refused("orders", [b'{"n": 1}'], key=b"abc", headers=[("id", b"1")], timestamp=1_709_290_000_000)
    project.drain()
    assert project.check() > 100
    rejected = {row["value"]: row for row in project.table("rejected", "orders")}
    assert {value: row["reason"] for value, row in rejected.items()} == {
        b'{"n": "many"}': """field 'n': got "many", want int""",
        b'{"at": "2024-03-01 10:30:00"}': """field 'at': got "2024-03-01 10:30:00", want timestamp with an offset, such as """
        "2013-01-05T14:30:00Z (without an offset: declare encoding: local and a zone for the field)",
        b'{"n": 1}': "key: got 3 bytes, want the 8 of a big-endian long",
    }
    kept = rejected[b'{"n": 1}']
    assert (kept["key"], kept["headers"], kept["timestamp_type"]) == (b"abc", [("id", b"1")], "create")
    assert kept["timestamp"] == datetime(2024, 3, 1, 10, 46, 40, tzinfo=UTC)
    project.recompute()
    assert project.check() > 100


def headers(body: Body) -> dict[str, str]:
    """The last of several with one name."""
    return {name: value.decode(errors="replace") for name, value in body["record"]["headers"]}


def kafka_time(body: Body) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=body["record"]["timestamp"])


def time(body: Body) -> datetime:
    return datetime.fromisoformat(body["at"]).astimezone(UTC) if body["at"] else kafka_time(body)


def key(body: Body) -> int | None:
    stored = body["record"]["key"]
    return None if stored is None else int(struct.unpack(">q", stored)[0])


def identity(body: Body) -> str | None:
    return None if key(body) is None else f"{headers(body)['id']}{key(body)}"


ORDERS = SourceRule(
    time=time,
    id=identity,
    where=lambda b: "test" not in headers(b),
    metrics={
        "by_minute": MetricRule(
            dimensions={
                "minute": lambda b: kafka_time(b).replace(second=0, microsecond=0),
                "trace": lambda b: headers(b).get("trace"),
                "customer": key,
            },
            measures={
                "n": ("sum", lambda b: b["n"]),
                "delay": ("max", lambda b: (time(b) - kafka_time(b)) // timedelta(milliseconds=1)),
                "last": ("max", lambda b: b["record"]["offset"]),
                "never": ("sum", lambda b: None),
            },
        ),
        "by_topic": MetricRule(
            where=lambda b: (key(b) or 0) > 0,
            dimensions={
                "topic": lambda b: "whole_records",
                "partition": lambda b: b["record"]["partition"],
                "type": lambda b: "create",
            },
            measures={"orders": ("count", lambda b: 1), "traces": ("distinct", lambda b: headers(b).get("trace"))},
        ),
    },
)


def order(rand: random.Random) -> dict[str, Any]:
    came = START + timedelta(milliseconds=rand.randrange(4 * 3_600_000))
    happened = came - timedelta(seconds=rand.randrange(5400))
    traces = rand.choice([[], [b"a"], [b"a", b"b"], ["é".encode()], [b"\xff"]])
    return {
        "body": {
            "n": rand.randrange(100),
            "at": rand.choice([None, f"{happened:%Y-%m-%dT%H:%M:%S}Z", f"{happened:%Y-%m-%d %H:%M:%S.%f}+00:00"]),
        },
        "key": rand.choice([None, struct.pack(">q", rand.choice([-(2**63), -1, 0, 1, 7, 2**63 - 1]))]),
        "headers": [
            *(("trace", trace) for trace in traces),
            ("id", str(rand.randrange(1000)).encode()),
            *([("test", b"")] if rand.random() < 0.1 else []),
        ],
        "timestamp": int(came.timestamp() * 1000),
    }
