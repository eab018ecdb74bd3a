"""Kafka's own faults, on three brokers: killed, paused, moved, below their minimum of copies, forbidding, grown, damaged.

One speed layer lives through them all. After each, every answer is equal to the oracle's over what was sent.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in strict mypy's way
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from batch_layer.findings import look_now
from hourline import load_project
from hourline_core.errors import LostRecordsError, SourceError
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.topics import topic_offsets
from serving_layer.reports.speed_state import KafkaAway
from serving_layer.reports.status import report_project_status
from speed_layer.spark_session import speed_session
from tests.stack.test_gaps import check_gaps
from tests.support import parcels
from tests.support.kafka_cluster import KafkaCluster
from tests.support.log_segments import UNKNOWN_CODEC, damaged
from tests.support.observed import drain
from tests.support.oracle import Sent
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

# In CI, test_up_and_down.py kills a broker, and test_gaps.py deletes records.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

TOPIC = "faults"
ANYBODY = ("User:ANONYMOUS", "*")
SIX_MINUTES = timedelta(minutes=6)
"""More than the default bound of a finding."""


@dataclass
class Running:
    """The cluster, a project, and the one speed layer that reads it."""

    cluster: KafkaCluster
    project: StackProject
    speed: SpeedProcess

    def send(self, count: int = 40, partition: int | None = None) -> None:
        self.project.send("scans", parcels.scans(self.project.random, count, first_hour=0, hours=3), partition)

    def everything_counts(self) -> None:
        """Wait until all that was sent has been read, and compare all answers and the accounting with the oracle."""
        while len(self.project.sequences("scans")) < len(self.project.sent["scans"]):
            self.speed.wait_for(" records")
        assert self.project.check() > 100

    def given_up(self) -> int:
        """How often Spark has given a query up."""
        return (self.project.project.workspace / "logs" / "spark-speed.log").read_text().count("terminated with error")

    def kafka_away(self) -> KafkaAway | None:
        """What `hourline status` says."""
        return report_project_status(self.project.project, 1).kafka_away

    def found_later(self) -> dict[str, str]:
        """By kind, what is found if it stays as it is for six minutes."""
        return {one.kind: one.sentence for one in look_now(self.project.project, lambda: wall_clock() + SIX_MINUTES)}

    @contextmanager
    def away(self, why: str) -> Iterator[None]:
        """Kafka is away, and the block brings it back: both are said once, and `status` tells the times."""
        self.speed.wait_for(why)
        away = self.kafka_away()
        assert away and away.until is None and why in away.reason
        assert why in self.found_later()["kafka_away"]
        yield
        self.speed.wait_for("Kafka is back")
        back = self.kafka_away()
        assert back and back.since == away.since and back.until and back.until > back.since
        assert "kafka_away" not in self.found_later()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def running(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    project = parcels.make(tmp_path_factory.mktemp("project"), cluster.bootstrap, topic=TOPIC, few=True)
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        yield Running(cluster, project, speed)


@pytest.fixture(scope="module")
def spark(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """For projects that are read until they are drained."""
    project = parcels.make(tmp_path_factory.mktemp("session"), cluster.bootstrap, "drained", few=True)
    with speed_session(project.project) as spark:
        yield spark


@pytest.fixture(autouse=True)
def whole(cluster: KafkaCluster) -> None:
    """Each test begins with all nodes there, however the one before has ended."""
    for node in cluster.nodes:
        node.revive()
    cluster.wait_until_whole()


def test_the_stream_goes_on_when_a_leader_is_killed_and_waits_for_records_below_the_minimum_of_copies(
    running: Running,
) -> None:
    running.send()
    leader = running.cluster.leader(TOPIC)
    leader.kill()
    running.send()
    running.everything_counts()
    # With fewer copies than its minimum, Kafka takes records of producers that do not ask for copies, and shows none.
    set_option(running.cluster, TOPIC, "min.insync.replicas", "3")
    with producer(running.project, acks="1"):
        running.send()
    leader.start()
    running.everything_counts()
    set_option(running.cluster, TOPIC, "min.insync.replicas", "1")


def test_the_stream_goes_on_after_all_brokers_were_paused(running: Running) -> None:
    running.send()
    for node in running.cluster.nodes:
        node.pause()
    with running.away("did not answer"):
        for node in running.cluster.nodes:
            node.resume()
    running.send()
    running.everything_counts()


def test_the_stream_goes_on_after_all_brokers_were_killed_and_came_back_at_other_ports(running: Running) -> None:
    running.send(partition=0)  # one of Spark's readers is enough: each takes a while to look for the brokers
    for node in running.cluster.nodes:
        node.kill()
        node.move()
    with running.away("did not answer"):
        for node in running.cluster.nodes:
            node.start()
    running.send(partition=0)
    running.everything_counts()


def test_a_stream_that_was_forbidden_to_read_starts_again_by_itself_when_it_may(running: Running) -> None:
    running.send()
    running.everything_counts()
    before = running.given_up()
    client = running.cluster.admin()
    forbidden = (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, *ANYBODY, AclOperation.READ)
    deny = AclBinding(*forbidden, AclPermissionType.DENY)
    client.create_acls([deny])[deny].result(30)
    with running.away("does not allow this user to describe topic"):
        wait_until(lambda: running.given_up() > before, "Spark goes on")
        allow = AclBindingFilter(*forbidden, AclPermissionType.DENY)
        client.delete_acls([allow])[allow].result(30)
    running.send()
    running.everything_counts()


def test_the_stream_goes_on_through_a_rolling_restart_with_at_least_two_copies(running: Running) -> None:
    set_option(running.cluster, TOPIC, "min.insync.replicas", "2")
    with producer(running.project, acks="all"):
        for node in running.cluster.nodes:
            running.send()
            node.stop()
            node.start()
            running.send()
            running.cluster.wait_until_whole()
    # Now each partition has moved to another leader. They move back.
    admin = running.cluster.admin()
    admin.elect_leaders(ElectionType.PREFERRED).result(60)
    running.send()
    running.everything_counts()
    set_option(running.cluster, TOPIC, "min.insync.replicas", "1")


def test_the_stream_goes_on_when_the_disk_of_a_broker_is_full(running: Running) -> None:
    full = running.cluster.nodes[2]
    full.stop()
    full.start(largest_file=12_000_000)
    running.cluster.wait_until_whole()
    large = [{**body, "note": "x" * 5_000_000} for body in parcels.scans(running.project.random, 4, 1, 1)]
    with producer(running.project, acks="all", **{"message.max.bytes": 6_000_000}):
        running.project.send("scans", large, partition=0)
    process = full.process
    assert process
    wait_until(lambda: not process.alive(), "the broker writes more than it may")
    running.send()
    running.everything_counts()


def test_a_client_of_a_rack_reads_from_the_replica_of_that_rack(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    project = parcels.make(tmp_path, cluster.bootstrap, topic="racks", partitions=1, few=True)
    leader = cluster.leader("racks")
    near = next(node for node in cluster.nodes if node is not leader)
    settings = tmp_path / "hourline.yaml"
    rack = f'kafka: {{bootstrap: "${{KAFKA}}", options: {{client.rack: {near.rack}}}}}'
    settings.write_text(settings.read_text().replace('kafka: {bootstrap: "${KAFKA}"}', rack))
    project.project = load_project(tmp_path, {"KAFKA": cluster.bootstrap})
    bodies = parcels.scans(project.random, 3000, first_hour=0, hours=3)
    project.send("scans", [{**body, "note": "x" * 1000} for body in bodies])
    before = {node.number: node.bytes_written() for node in cluster.nodes}
    drain(spark, project.project, cluster.bootstrap)
    sent = {node.number: node.bytes_written() - before[node.number] for node in cluster.nodes}
    assert sent[near.number] > 3_000_000 > 2 * sent[leader.number], sent
    assert project.check() > 100


def test_partitions_that_are_added_are_read_from_their_beginning_and_records_of_5_mb_too(running: Running) -> None:
    running.send()
    running.project.add_partitions("scans", 50)
    large = "x" * 5_000_000
    with producer(running.project, **{"message.max.bytes": 6_000_000}):
        running.project.send(
            "scans", [{**body, "note": large} for body in parcels.scans(running.project.random, 4, 1, 1)]
        )
        running.send(400)
    running.everything_counts()
    assert len({row["partition"] for row in offsets(running.project)}) == 50


def test_batches_of_every_codec_count_and_one_that_cannot_be_read_stops_the_stream_until_it_is_mended(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    project = parcels.make(tmp_path, cluster.bootstrap, topic="codecs", partitions=1, few=True)

    def send(codec: str) -> None:
        with producer(project, **{"compression.type": codec}):
            project.send("scans", parcels.scans(project.random, 10, first_hour=0, hours=2))

    log = cluster.leader("codecs").log_of("codecs", 0)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        send(codec)
    drain(spark, project.project, cluster.bootstrap)
    project.check()
    for damage in (None, UNKNOWN_CODEC):
        send("none")
        with (
            damaged(log, damage),
            pytest.raises(SourceError, match=r"the stream of source 'scans' stopped: .* cannot be read") as stopped,
        ):
            drain(spark, project.project, cluster.bootstrap)
        assert "\n" not in str(stopped.value) and "nothing is lost" in str(stopped.value)
        drain(spark, project.project, cluster.bootstrap)
        assert project.check() > 100


def test_what_retention_deletes_before_it_is_read_is_told_and_all_else_counts(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = "kept"
    project = parcels.make(tmp_path, cluster.bootstrap, topic, partitions=1, few=True)

    def send(first_hour: int) -> list[Sent]:
        project.send("scans", parcels.scans(project.random, 100, first_hour, hours=2))
        return project.sent["scans"][-100:]

    send(0)
    drain(spark, project.project, cluster.bootstrap)
    lost = send(2)
    set_option(cluster, topic, "retention.ms", "1")
    wait_until(lambda: topic_offsets(cluster.bootstrap, topic, {}) == {0: (200, 200)}, "retention deletes nothing")
    set_option(cluster, topic, "retention.ms", "-1")
    with pytest.raises(LostRecordsError, match=r"topic 'kept' partition 0 offsets 100 to 199: at most 100 record\(s\)"):
        drain(spark, project.project, cluster.bootstrap)
    send(2)
    drain(spark, project.project, cluster.bootstrap, accept_loss=True)
    project.sent["scans"] = [record for record in project.sent["scans"] if record not in lost]
    check_gaps(project, lost)


def test_the_stream_goes_on_after_all_brokers_were_paused_for_a_minute(running: Running) -> None:
    running.send()
    for node in running.cluster.nodes:
        node.pause()
    with running.away("did not answer"):
        time.sleep(60)
        for node in running.cluster.nodes:
            node.resume()
    running.send()
    running.everything_counts()


def test_the_stream_starts_again_after_kafka_was_away_for_so_long_that_spark_gave_up(running: Running) -> None:
    running.send()
    before = running.given_up()
    for node in running.cluster.nodes:
        node.kill()
    with running.away("did not answer"):
        wait_until(lambda: running.given_up() > before, "Spark goes on")
        for node in running.cluster.nodes:
            node.start()
    running.send()
    running.everything_counts()


def test_ctrl_c_ends_the_stream_after_the_commit_that_runs(running: Running) -> None:
    """The last test of this stream."""
    running.speed.process.send_signal(signal.SIGINT)
    assert running.speed.wait() == 0, running.speed.lines
    assert "stopping after the commit that runs\n" in running.speed.lines


@contextmanager
def producer(project: StackProject, **options: object) -> Iterator[None]:
    """Within the block, what is sent is sent with these options."""
    before = project.producer
    project.producer = Producer({"bootstrap.servers": project.kafka, "log_level": 0, **options})
    yield
    project.producer = before


def set_option(cluster: KafkaCluster, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = cluster.admin()
    client.incremental_alter_configs([resource])[resource].result(30)


def offsets(project: StackProject) -> list[dict[str, int]]:
    return [read for row in project.table("progress", "scans") for read in row["offsets"]]
