"""Every kind of bad record goes to rejected with its bytes, reason and address; the stream goes on and its clock does
not jump.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.oracle import MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/visits.yaml": """\
        topic: bad_records
        fields:
          page: {type: string, required: true}
          ms: int
          load: double
          day: date
          at: string
          tags: "array<struct<name: string, weight: double>>"
        event_time: at
        earliest: 0001-01-02T00:00:00Z
        partitions: 2
        """,
    "metrics/pages.yaml": "source: visits\ndimensions: [page]\nmeasures: {visits: count, ms: sum(ms), load: max(load)}\n",
}
RULE = SourceRule(
    time=lambda body: datetime.fromisoformat(body["at"]).astimezone(UTC),
    metrics={
        "pages": MetricRule(
            dimensions={"page": lambda body: body["page"]},
            measures={
                "visits": ("count", lambda body: 1),
                "ms": ("sum", lambda body: body.get("ms")),
                "load": ("max", lambda body: body.get("load")),
            },
        )
    },
)
AT = "2024-03-01T10:30:00Z"


def record(**changed: Any) -> bytes:
    body = {"page": "/", "ms": 1, "load": 0.5, "at": AT} | changed
    return json.dumps({name: value for name, value in body.items() if value is not ...}).encode()


ahead = datetime.now(UTC) + timedelta(days=3652)
# By the record's value, what its reason must say.
BAD = {
    b"": "empty value",
    b" ": "JSON",
    b"{": "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"} x': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"}{"page": "/", "at": "2024-03-01T10:30:00Z"}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},{"page": "/", "at": "2024-03-01T10:30:00Z"}': "JSON",
    b'[{"page": "/", "at": "2024-03-01T10:30:00Z"}]': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"}],"x":[1': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"}],"x":[1,null': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},null],"x":[1': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},{}],"x":[1': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},{"x":{}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},{"x":1},': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},{"end":1}],"e":[{}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"}]}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z", "x": [1': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z", "x": {"y": "': "JSON",
    b',{"page": "/", "at": "2024-03-01T10:30:00Z"}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"},': "JSON",
    b'],"r":[{"page": "/", "at": "2024-03-01T10:30:00Z"}': "JSON",
    b'{"page": "/", "at": "2024-03-01T10:30:00Z"}],"e":1}': "JSON",
    b"null": "JSON",
    b"7": "JSON",
    b'"text"': "JSON",
    b'{"page": "\xff\xfe", "at": "2024-03-01T10:30:00Z"}': "UTF-8",
    record(page=...): "'page' is missing",
    record(page=None): "'page' is missing",
    b"{}": "'page' is missing",
    record(ms="many"): """field 'ms': got "many", want int""",
    record(ms=1.5): "field 'ms': got 1.5, want int",
    record(ms=2**31): "field 'ms': got 2147483648, want int",
    record(ms=[1]): "field 'ms': got [1], want int",
    record(load="fast"): """field 'load': got "fast", want double""",
    record(ms=10**29 + 1): "field 'ms': got 100000000000000000000000000001, want int",
    record(page="\ud83d"): "half of a surrogate pair",
    record(page="\ude00\ud83d"): "half of a surrogate pair",
    record(page="\\\ud83d."): "half of a surrogate pair",
    record(page="\\ud83d\ude00"): "half of a surrogate pair",
    record(page="\U0001f600\ude00"): "half of a surrogate pair",
    record(page="\\" * 1100 + "\ud83d"): "half of a surrogate pair",
    record(page="\\" * 1100 + "\\ud83d\ude00"): "half of a surrogate pair",
    b'{"page": "/", "load": NaN, "at": "2024-03-01T10:30:00Z"}': "",
    b'{"page": "/", "load": 1e999, "at": "2024-03-01T10:30:00Z"}': "'load'",
    record(day="2024-02-30"): """field 'day': got "2024-02-30", want date""",
    record(
        tags=[{"name": "a", "weight": 1}, {"name": "b", "weight": "heavy"}]
    ): """field 'tags[1].weight': got "heavy", want double""",
    record(tags={"name": "a", "weight": 1}): "field 'tags': got {",
    record(at=...): "event time: at is null",
    record(at=""): "event time: got ",
    record(at="yesterday"): "event time: got yesterday",
    record(at="12:30"): "event time: got 12:30",
    record(at="2024-03-01T10:30:00"): "event time: got 2024-03-01T10:30:00, want ISO text with seconds and an offset",
    record(at="2024-02-30T10:30:00Z"): "event time: got 2024-02-30T10:30:00Z",
    record(at="2024-03-01T25:30:00Z"): "event time: got 2024-03-01T25:30:00Z",
    record(at="10000-01-01T00:00:00Z"): "event time",
    record(at=f"{ahead:%Y-%m-%dT%H:%M:%SZ}"): "ahead of its arrival",
    record(at="0001-01-01T23:59:59.999999Z"): "is before 0001-01-02T00:00Z",
    record(at="0000-00-00T00:00:00Z"): "event time",
}
GOOD: list[dict[str, Any]] = [
    {"page": "/", "ms": None, "load": None, "at": "0001-01-02T00:00:00Z"},
    {"page": "/a", "ms": -(2**31), "at": "2024-03-01T10:30:00.5+01:00"},
    {"page": "", "ms": 3, "load": 1e300, "at": "2024-03-01 10:59:59.999999Z", "more": {"than": ["was", "declared"]}},
    {"page": "\U0001f600\U0001f600 \\ud83d \\\U0001f600 \\\\ude00", "ms": 2, "at": "2024-03-01T10:30:00Z"},
    {"page": "/", "ms": 7, "at": "2024-03-01T10:30:00Z", "more": "\\" * 1100 + "\U0001f600"},
    {"page": '"},{"', "ms": 5, "load": 0.0, "at": "2024-03-01T11:00:00-00:00"},
]


def test_bad_records_are_kept_and_the_stream_goes_on(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"visits": RULE})
    project.send("visits", GOOD[:2])
    project.send_refused("visits", [*BAD, None, None])
    project.send("visits", GOOD[2:])
    project.drain()
    kept = project.table("rejected", "visits")
    rejected = {row["value"]: row for row in kept if row["reason"]}
    assert rejected.keys() == BAD.keys(), (
        f"accepted: {BAD.keys() - rejected.keys()}, rejected: {rejected.keys() - BAD.keys()}"
    )
    assert {value: row["reason"] for value, row in rejected.items() if BAD[value] not in row["reason"]} == {}
    assert {row["topic"] for row in rejected.values()} == {"bad_records"}
    tombstones = sorted((row["partition"], row["offset"]) for row in kept if row["decoding"] == "tombstone")
    assert tombstones == sorted((one.partition, one.offset) for one in project.sent["visits"] if one.tombstone)
    # Addresses, the tombstones' count, and hours: none has closed that the far future would have closed.
    assert project.check() > 10
    assert max(row["clock"] for row in project.table("progress", "visits")) <= datetime(2024, 3, 1, 11, tzinfo=UTC)


@pytest.mark.long
def test_nothing_but_bad_records_is_a_finished_micro_batch_too(kafka: str, tmp_path: Path) -> None:
    files = {**FILES, "sources/visits.yaml": FILES["sources/visits.yaml"].replace("bad_records", "only_bad_records")}
    project = StackProject(write_project(tmp_path, files), kafka, {"visits": RULE})
    project.send_refused("visits", [b"{", None])
    (done,) = project.drain()
    assert (done.records, done.accepted, done.rejected) == (2, 0, 1)
    assert project.check() == 0
    assert project.drain() == []
