"""Transactions and compaction: what can be read is read once, and `lag` and Kafka's own tools say so; what cannot be
read yet is told beside it; and an offset without a record is no loss.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in strict mypy's way
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from hourline_core.runtime.topics import topic_offsets
from serving_layer.reports.source_status import SourceStatus
from speed_layer.commit.committer import Finished
from speed_layer.spark_session import speed_session
from tests.stack.test_replay import committed
from tests.stack.test_reset import status
from tests.support import observed, parcels
from tests.support.oracle import Sent
from tests.support.speed_process import wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy


class Transactions:
    """Sends events to the project's topic in transactions."""

    def __init__(self, project: StackProject, name: str) -> None:
        self._project = project
        self._producer = Producer({"bootstrap.servers": project.kafka, "transactional.id": name, "log_level": 0})
        self._producer.init_transactions()
        self.sent: list[Sent] = []
        """What the open transaction has sent."""

    def send(self, bodies: Iterable[dict[str, Any]], partition: int) -> None:
        self._producer.begin_transaction()
        sent, project = self._project.sent["scans"], self._project
        ours, project.producer = project.producer, self._producer
        count = len(sent)
        project.send("scans", bodies, partition)
        project.producer = ours
        self.sent, sent[count:] = sent[count:], []

    def commit(self) -> None:
        self._producer.commit_transaction()
        self._project.sent["scans"] += self.sent

    def abort(self) -> None:
        self._producer.abort_transaction()


@pytest.fixture(scope="module", autouse=True)
def compacted(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project that has read the first half of a topic whose records Kafka compacts from then on."""
    often = {"cleanup.policy": "delete", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0"}
    new = NewTopic("compacted", num_partitions=1, replication_factor=1, config=often)
    client = AdminClient({"bootstrap.servers": kafka})  # A request ends with its client.
    client.create_topics([new])["compacted"].result()
    project = parcels.make(tmp_path_factory.mktemp("compacted"), kafka, topic="compacted", partitions=1, few=True)
    for read in (True, False):
        for body in parcels.scans(project.random, 40, first_hour=0, hours=4):
            project.send_records("scans", [{"body": body, "key": b"k%d" % project.random.randrange(5)}])
        if read:
            project.drain()
            set_policy(kafka, "compact")
    return project


@pytest.fixture
def project(kafka: str, tmp_path: Path) -> StackProject:
    return parcels.make(tmp_path, kafka, topic="transactions", few=True)


@pytest.fixture
def drain(project: StackProject) -> Iterator[Callable[[], list[Finished]]]:
    """Drains the project's topic, always by the same Spark session."""
    with speed_session(project.project) as spark:
        yield lambda: observed.drain(spark, project.project, project.kafka).batches


@pytest.mark.long
def test_lag_is_0_when_all_that_can_be_read_was_whatever_transactions_left_behind(
    kafka: str, project: StackProject, drain: Callable[[], list[Finished]]
) -> None:
    one, other = Transactions(project, "one"), Transactions(project, "other")

    def scans(count: int) -> list[dict[str, Any]]:
        return parcels.scans(project.random, count, first_hour=0, hours=4)

    one.send(scans(20), partition=0)
    one.commit()
    other.send(scans(15), partition=1)
    other.abort()
    drain()
    counts(project, lag=0, in_transaction=0)
    assert project.check_answers() > 20

    # Only what was aborted is new, and then nothing but a marker.
    other.send(scans(7), partition=2)
    other.abort()
    counts(project, lag=8, in_transaction=0)
    drain()
    counts(project, lag=0, in_transaction=0)
    shown_in_kafka(project)

    # An open transaction holds back what was committed behind it, too.
    one.send(scans(1003), partition=0)
    opened = datetime.now(UTC)
    project.send("scans", scans(5), partition=0)
    project.send("scans", scans(6), partition=1)
    counts(project, lag=6, in_transaction=1008)
    since = told(project).in_transaction_since
    assert since is not None
    assert opened - timedelta(seconds=60) < since <= opened
    held, project.sent["scans"] = (
        project.sent["scans"][-11:-6],
        [*project.sent["scans"][:-11], *project.sent["scans"][-6:]],
    )
    drain()
    assert project.check_answers() > 20
    counts(project, lag=0, in_transaction=1008)
    one.commit()
    project.sent["scans"] += held
    counts(project, lag=1009, in_transaction=0)
    drain()
    assert project.check_answers() > 20
    counts(project, lag=0, in_transaction=0)
    shown_in_kafka(project)

    # Retention deletes the markers, which nobody reads, and all records before them, which were read.
    client = AdminClient({"bootstrap.servers": kafka})
    ends = [TopicPartition("transactions", p, end) for p, (_, end) in topic_offsets(kafka, "transactions", {}).items()]
    for deleted in client.delete_records(ends).values():
        deleted.result()
    assert drain() == []
    project.send("scans", scans(10))
    drain()
    assert project.check_answers() > 20
    counts(project, lag=0, in_transaction=0)
    assert status(project).skipped == 0


@pytest.mark.long  # In CI, offsets without records are those of transactions, above.
def test_what_compaction_removes_is_no_loss(compacted: StackProject) -> None:
    project, sent = compacted, compacted.sent["scans"]

    def there() -> set[int | None]:
        return {message.offset() for message in committed(project.kafka, "compacted")}

    def is_compacted() -> bool:
        project.send_refused("scans", [b"{"], key=b"last")  # A segment is compacted once another one has begun.
        return len(sent) - len(there()) > 60

    wait_until(is_compacted, "Kafka does not compact the topic")
    # Nothing tells any more that records were removed.
    set_policy(project.kafka, "delete")
    read = set(project.sequences("scans"))
    left = there()
    assert max(read)[1] not in left, "the record that was read last is gone, too"
    project.drain()
    # A compaction that had begun before it was stopped may have removed some more, before or after they were read.
    stayed, archived = there(), {row["offset"] for row in project.table("events", "scans", ["offset"])}
    assert stayed <= {offset for _, offset in project.sequences("scans")}
    there_when_read = stayed | (left & archived)
    project.sent["scans"] = [
        one for one in sent if (one.partition, one.offset) in read or one.offset in there_when_read
    ]
    assert len(project.sent["scans"]) < len(sent)
    assert project.check_answers() > 20
    counts(project, lag=0, in_transaction=0)
    assert status(project).skipped == 0


def set_policy(kafka: str, policy: str) -> None:
    """Have Kafka compact the topic, or keep all records."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, "compacted", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": kafka})
    client.incremental_alter_configs([topic])[topic].result()


def told(project: StackProject) -> SourceStatus:
    """What the status tells, once Kafka has answered within its time limit."""
    found: list[SourceStatus] = []

    def is_told() -> bool:
        found.append(status(project))
        return found[-1].lag is not None and (not found[-1].in_transaction or bool(found[-1].in_transaction_since))

    wait_until(is_told, "Kafka does not answer in time")
    return found[-1]


def counts(project: StackProject, lag: int, in_transaction: int) -> None:
    """Wait until the status tells these. Kafka answers a producer before it has written the markers."""

    def are_told() -> bool:
        found = told(project)
        return (found.lag, found.in_transaction) == (lag, in_transaction)

    wait_until(are_told, f"the status does not tell a lag of {lag} and {in_transaction} in a transaction")
    found = told(project)
    assert sum(of.lag or 0 for of in found.partitions) == lag
    assert sum(of.in_transaction or 0 for of in found.partitions) == in_transaction


def shown_in_kafka(project: StackProject) -> None:
    """Kafka's own tools see what was read as that of a consumer group without lag. It is shown after the commit."""
    client = AdminClient({"bootstrap.servers": project.kafka})
    group = "hourline.transactions.scans"
    ends = {p: end for p, (_, end) in topic_offsets(project.kafka, "transactions", {}).items()}

    def is_shown() -> bool:
        offsets = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
        return {of.partition: of.offset for of in offsets.topic_partitions} == ends

    wait_until(is_shown, f"the group is not shown at {ends}")
