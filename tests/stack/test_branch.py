"""Several sources read one topic, each the records of its branch: each record is archived or rejected by the branches that
take it, and counted by the others, whatever is declared later, and however often it is read.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

import serving_layer
from hourline import load_project
from hourline_core.errors import DeclarationError
from serving_layer.reports.status import report_project_status
from speed_layer.import_files import find_history, import_files
from speed_layer.reset import SourceReset
from speed_layer.spark_session import speed_session
from tests.support.command_line import hourline
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)

FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 80}
        """,
    # With a branch for the rest.
    "sources/clicks.yaml": """\
        topic: branch_shop
        branch: kind = 'click' and record.headers['test'] is null
        key_type: string
        fields: {kind: string, n: {type: int, required: true}, at: timestamp}
        event_time: at
        partitions: 2
        """,
    "sources/views.yaml": """\
        topic: branch_shop
        branch: kind = 'view' or record.key = 'v'
        key_type: string
        fields: {kind: string, page: string, at: timestamp}
        event_time: at
        """,
    "sources/rest.yaml": """\
        topic: branch_shop
        branch: otherwise
        key_type: string
        fields: {n: int, at: timestamp}
        event_time: at
        """,
    # Without one; some records are taken by both, and some by none.
    "sources/big.yaml": """\
        topic: [branch_eu, branch_us]
        branch: n > 10
        fields: {n: int, at: timestamp}
        event_time: at
        """,
    "sources/even.yaml": """\
        topic: [branch_us, branch_eu]
        branch: n % 2 = 0
        fields: {n: int, at: timestamp, kind: int}
        event_time: at
        """,
    **{
        f"metrics/of_{source}.yaml": f"source: {source}\nmeasures: {{events: count, highest: max(record.offset)}}\n"
        for source in ("clicks", "views", "rest", "big", "even")
    },
}


@dataclass(frozen=True)
class Record:
    """What was sent, with its address. ``event`` is None if the value is no JSON object of typed fields."""

    value: bytes | None
    key: bytes | None
    test: bool
    topic: str
    partition: int
    offset: int

    @property
    def event(self) -> Any:
        try:
            event = json.loads(self.value or b"")
        except ValueError:
            return None
        return event if isinstance(event, dict) else None


Verdict = str
Rule = Callable[[Record], Verdict]


def number(value: Any) -> bool:
    return value is None or isinstance(value, int)


def text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def clicks(record: Record) -> Verdict:
    """Naive Python: accepted, rejected, or not taken (or tombstone)."""
    event = record.event
    if event is None or event.get("kind") != "click" or record.test or record.key == b"\xff":
        return "not_taken"
    return "accepted" if event.get("n") is not None and number(event["n"]) and event.get("at") else "rejected"


def views(record: Record) -> Verdict:
    event = record.event
    if event is None or record.key == b"\xff" or not text(event.get("kind")):
        return "not_taken"
    if not (event.get("kind") == "view" or record.key == b"v"):
        return "not_taken"
    return "accepted" if event.get("at") and text(event.get("page")) else "rejected"


def rest(record: Record) -> Verdict:
    if record.value is None:
        return "tombstone"
    if record.event is None or record.key == b"\xff" or not text(record.event.get("kind")):
        return "rejected"
    if {clicks(record), views(record)} != {"not_taken"}:
        return "not_taken"
    return "accepted" if number(record.event.get("n")) and record.event.get("at") else "rejected"


def even(record: Record) -> Verdict:
    event = record.event
    if event is None or not isinstance(event.get("n"), int) or event["n"] % 2:
        return "not_taken"
    return "accepted" if number(event.get("kind")) and event.get("at") else "rejected"


def big_above(limit: int) -> Rule:
    """The first source by name: it rejects what no condition can be evaluated of, and counts what nobody takes."""

    def big(record: Record) -> Verdict:
        if record.value is None:
            return "tombstone"
        if record.event is None or not number(record.event.get("n")):
            return "rejected"
        n = record.event.get("n")
        if n is None or n <= limit:
            return "taken_by_none" if even(record) == "not_taken" else "not_taken"
        return "accepted" if record.event.get("at") else "rejected"

    return big


RULES: dict[str, Rule] = {"clicks": clicks, "views": views, "rest": rest, "big": big_above(10), "even": even}


def test_each_record_is_taken_by_its_branches_and_counted_by_the_others(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {})
    sent: dict[str, list[Record]] = {"shop": [], "regions": []}
    send(project, sent)
    project.drain()
    check_all(project, sent)
    project.recompute()
    check_all(project, sent)
    told = hourline("status", folder=project.root, status=0)
    untaken = Counter(map(RULES["big"], sent["regions"]))["taken_by_none"]
    assert untaken > 10
    assert f"no branch takes {untaken} record(s) of branch_eu, branch_us" in told
    assert "not taken" in hourline("status", "--source", "even", folder=project.root, status=0)

    # A branch that takes more: what it has not taken is read, once. One that takes less keeps what it has.
    declare(project, "sources/big.yaml", ("n > 10", "n > 5"))
    declare(project, "sources/even.yaml", ("n % 2 = 0", "n % 4 = 0"))
    for source in ("big", "even"):
        SourceReset(project.project, project.project.sources[source], kafka, "earliest").apply(NOW)
    project.drain()
    verdicts = [
        RULES["big"](record) if RULES["big"](record) not in ("not_taken", "taken_by_none") else big_above(5)(record)
        for record in sent["regions"]
    ]
    told_of = numbers(project)
    check(project, "big", verdicts, sent, told_of["big"], taken_by_none=untaken)
    check(project, "even", [even(record) for record in sent["regions"]], sent, told_of["even"])


def test_rows_of_a_file_that_the_branch_takes_are_imported(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path / "project", FILES), kafka, {})
    rows = [b'{"n": 2, "at": "2024-03-01T10:00:00Z"}', b'{"n": 3, "at": "2024-03-01T10:00:00Z"}', b'{"n": "x"}', b"{"]
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"\n".join(rows))
    source = project.project.sources["even"]
    with speed_session(project.project) as spark:
        (done,) = import_files(spark, project.project, source, find_history(project.project, source, [str(file)]))
    assert (done.rows, done.accepted, done.rejected, done.not_taken) == (4, 1, 2, 1), "no other source reads the file"
    (row,) = project.table("progress", "even")
    assert (row["not_taken"], row["taken_by_none"]) == (1, 0)


def test_a_condition_that_cannot_be_evaluated_alike_is_found(tmp_path: Path) -> None:
    conditions = {
        "kimd = 'click'": "did you mean 'kind'?",
        "n + 1": "'n + 1' is of type int; a condition is boolean",
        "rand() < 0.5": "gives another value each time",
        "record.arrived > at": "'record.arrived' differs between the sources of a topic",
        "event_time is null": "there is no field 'event_time' (there is: at, kind, n)",
        "count(*) > 1": "'count(*) > 1' is about several events, allowed is an expression over one event",
        "row_number() over (order by n) = 1": "got OVER, allowed is an expression over one event",
        "n in (select 1)": "got SELECT, allowed is an expression over one event",
    }
    source = FILES["sources/clicks.yaml"].replace("kind = 'click' and record.headers['test'] is null", "CONDITION")
    sources = {
        f"sources/s{number}.yaml": source.replace("shop", str(number)).replace("CONDITION", condition)
        for number, condition in enumerate(conditions)
    }
    # A branch decides about records, which have the fields that explode takes apart.
    sources["sources/right.yaml"] = """\
        topic: branch_right
        branch: size(hits) > 0
        fields: {hits: array<timestamp>}
        explode: {hit: hits}
        event_time: hit
        """
    project = load_project(write_project(tmp_path, {"hourline.yaml": 'spark: {master: "local[2]"}', **sources}))
    with pytest.raises(DeclarationError) as refused, speed_session(project):
        pass
    mistakes = str(refused.value).splitlines()
    assert len(mistakes) == len(conditions)
    for number, (mistake, said) in enumerate(zip(mistakes, conditions.values(), strict=True)):
        assert mistake.startswith(f"sources/s{number}.yaml:2: branch: ")
        assert said in mistake


def records_of(sent: dict[str, list[Record]], source: str) -> list[Record]:
    return sent["regions" if source in ("big", "even") else "shop"]


def send(project: StackProject, sent: dict[str, list[Record]]) -> None:
    """Records of all kinds to all topics."""
    rand = project.random
    for _ in range(120):
        event: dict[str, Any] = {
            "kind": rand.choice(["click", "view", "other", None, 5]),
            "n": rand.choice([None, "many", 2.5, *range(20)]),
            "page": rand.choice(["a", None, 7]),
            "at": rand.choice([None, *[(START + timedelta(minutes=rand.randrange(90))).isoformat()] * 9]),
        }
        event = {name: value for name, value in event.items() if value is not None or rand.random() < 0.5}
        value = rand.choice([None, b"", b"{", b"[]", b"\xff", *[json.dumps(event).encode()] * 20])
        key = rand.choice([None, b"v", b"w", b"\xff"])
        test = rand.random() < 0.2
        for topics in (["branch_shop"], ["branch_eu", "branch_us"]):
            topic = rand.choice(topics)

            def delivered(
                error: object,
                message: Message,
                topic: str = topic,
                value: bytes | None = value,
                key: bytes | None = key,
                test: bool = test,
            ) -> None:
                assert error is None, error
                place = (message.partition() or 0, message.offset() or 0)
                sent["shop" if topic == "branch_shop" else "regions"].append(Record(value, key, test, topic, *place))

            project.producer.produce(
                topic,
                value,
                key,
                rand.randrange(2) if topic == "branch_shop" else 0,
                on_delivery=delivered,
                headers=[("test", b"1")] if test else [],
            )
    project.flush()


def check_all(project: StackProject, sent: dict[str, list[Record]]) -> None:
    told = numbers(project)
    for source, rule in RULES.items():
        check(project, source, [rule(record) for record in records_of(sent, source)], sent, told[source])


def check(
    project: StackProject,
    source: str,
    verdicts: list[Verdict],
    sent: dict[str, list[Record]],
    told: dict[str, int],
    taken_by_none: int | None = None,
) -> None:
    """The tables of ``source``, and the status, which has ``told`` these numbers, say of each record what ``verdicts``
    say. ``taken_by_none``: when they were read first.
    """
    progress, counts = project.table("progress", source), Counter(verdicts)
    not_taken = counts["not_taken"] + counts["taken_by_none"]
    assert told == {
        "records": len(verdicts),
        "accepted": counts["accepted"],
        "rejected": counts["rejected"],
        "duplicates": 0,
        "tombstones": counts["tombstone"],
        "not_taken": not_taken,
        "taken_by_none": counts["taken_by_none"] if taken_by_none is None else taken_by_none,
    }
    for row in progress:
        assert row["records"] == sum(
            row[name] or 0 for name in ("accepted", "rejected", "duplicates", "tombstones", "not_taken")
        )
    for table, verdict in (("events", "accepted"), ("rejected", "rejected")):
        rows = [row for row in project.table(table, source) if verdict == "accepted" or row["reason"]]
        kept = sorted((row["topic"], row["partition"], row["offset"]) for row in rows)
        assert kept == sorted(
            (record.topic, record.partition, record.offset)
            for record, said in zip(records_of(sent, source), verdicts, strict=True)
            if said == verdict
        ), table
    with serving_layer.connect(project.project) as connection:
        ((events,),) = connection.sql(f"SELECT coalesce(sum(events), 0) FROM of_{source}").fetchall()
    assert events == counts["accepted"] > 0


def numbers(project: StackProject) -> dict[str, dict[str, int]]:
    """What the status counts, by source."""
    names = {"records", "accepted", "rejected", "duplicates", "tombstones", "not_taken", "taken_by_none"}
    return {one.source: one.model_dump(include=names) for one in report_project_status(project.project, 1).sources}


def declare(project: StackProject, file: str, change: tuple[str, str]) -> None:
    path = project.root / file
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    project.project = load_project(project.root, {"KAFKA": project.kafka})
