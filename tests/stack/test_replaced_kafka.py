"""What Kafka does to a source: a topic is recreated, a log is cut off and grows again, or it is another Kafka. Nothing
of it is counted before a person, or a declaration, says how to go on. Then each record counts once.
"""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from hourline.cli import app
from hourline_core.errors import SourceError, TopicReplacedError
from hourline_core.runtime.lease import lease
from hourline_core.runtime.topic_absence import absent_topics
from hourline_core.runtime.topics import ensure_topic, topic_id_of
from serving_layer.reports.status import report_project_status
from tests.support.kafka_rig import Address, Body, KafkaRig
from tests.support.recreated_topic import delete_topic
from tests.support.speed_process import wait_until

pytestmark = pytest.mark.heavy

SOURCE = """\
    topic: NAME
    fields: {n: int, who: string, at: timestamp}
    event_time: at
    partitions: PARTITIONS
    FURTHER
    """
METRIC = """\
    source: NAME
    measures: {records: count, total: sum(n)}
    """
SOURCES = {"plain": "", "unique": "id: who", "onward": "on_recreate: continue"}
SOURCES |= dict.fromkeys(("logs", "other", "steady"), "")
FILES = {
    "hourline.yaml": """\
        name: replaced
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    **{
        f"sources/{name}.yaml": SOURCE.replace("NAME", name)
        .replace("PARTITIONS", "2" if name == "logs" else "1")
        .replace("FURTHER", further)
        for name, further in SOURCES.items()
    },
    **{f"metrics/{name}_n.yaml": METRIC.replace("NAME", name) for name in SOURCES},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaRig]:
    with KafkaRig(tmp_path_factory.mktemp("replaced"), FILES) as rig:
        yield rig


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is asked often while no records come."""
    monkeypatch.setattr("speed_layer.streams.foreach_batch._SECONDS_BETWEEN_LOOKS", 0.5)


# With fewer, Spark misses offsets. With as many, it sees nothing new. With more, it reads on.
@pytest.mark.parametrize(
    "count",
    [pytest.param(40, marks=pytest.mark.long), 100, pytest.param(150, marks=pytest.mark.long)],
    ids=["fewer", "as many", "more"],
)
def test_a_recreated_topic_under_a_stream_stops_it_and_counts_after_a_reset(
    rig: KafkaRig, count: int, request: pytest.FixtureRequest
) -> None:
    if count == 100:
        request.getfixturevalue("impatient")
    project = rig.of("plain")
    with rig.running(project) as running:
        rig.send("plain", 100)
        running.wait_for(100)
        before = topic_id_of(rig.kafka, "plain", {})
        known = dict(rig.produced["plain"])
        rig.recreate("plain")
        rig.send("plain", count)
        with pytest.raises(TopicReplacedError, match=r"topic 'plain' .* was deleted.* `hourline reset plain`"):
            running.done.result(120)
    assert running.records == 100
    (status,) = report_project_status(project, last=1).sources
    assert status.lag is None and "was deleted and recreated since it was read" in str(status.lag_unknown)
    new, rig.produced["plain"] = rig.produced["plain"], known
    rig.check("plain")
    rig.produced["plain"] = new
    with pytest.raises(TopicReplacedError, match=f"its id was {before}, and is {topic_id_of(rig.kafka, 'plain', {})}"):
        rig.drain(project)
    rig.reset("plain")
    assert rig.drain(project) == count
    assert rig.check("plain") == len(known) + count


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_source_that_goes_on_reads_each_topic_once(rig: KafkaRig) -> None:
    project, total = rig.of("onward"), 0
    with rig.running(project) as running:
        for times, count in enumerate((100, 40, 40, 120)):
            if times:
                rig.recreate("onward")
            rig.send("onward", count)
            total += count
            running.wait_for(total)
            assert running.restarts >= times, running.replaced
    running.done.result()
    assert rig.check("onward") == running.records == total

    # And while it is stopped: with fewer records, and with an old micro-batch's offsets.
    for count in (20, 60):
        rig.recreate("onward")
        rig.send("onward", count)
        assert rig.drain(project) == count
        assert rig.drain(project) == 0
        total += count
    assert rig.check("onward") == total


@pytest.mark.long  # tests/unit/speed_layer/test_awaited_topics.py knows those that are gone.
@pytest.mark.usefixtures("impatient")
def test_while_a_topic_is_gone_its_source_waits_and_the_others_are_read(rig: KafkaRig) -> None:
    project = rig.of("onward", "steady")

    def status() -> str:
        return CliRunner().invoke(app, ["status", "-p", str(rig.whole.root)], env={"KAFKA": rig.kafka}).output

    with lease(project.workspace, "speed"), rig.running(project) as running:
        rig.send("onward", 30)
        rig.send("steady", 50)
        running.wait_for(80)
        delete_topic(rig.kafka, "onward")
        wait_until(lambda: bool(absent_topics(project.workspace)) or running.done.done(), "nothing was noticed")
        rig.send("steady", 40)
        running.wait_for(120)
        said = " ".join(status().split())
        assert "onward: the topic onward was deleted, and the source has waited for a new one since 2" in said
        assert "steady: the topic" not in said
        ensure_topic(rig.kafka, "onward", 1, {})
        rig.send("onward", 20)
        rig.send("steady", 10)
        running.wait_for(150)
        assert "onward" in running.back
        assert "onward: the topic" not in status()
    running.done.result()
    rig.check("onward")
    rig.check("steady")
    assert running.records == 150


@pytest.mark.long
def test_a_recreated_topic_while_the_stream_is_stopped_counts_its_ids_once(rig: KafkaRig) -> None:
    project = rig.of("unique")
    rig.drain(project)
    rig.send("unique", 90, who="a")
    assert rig.drain(project) == 90
    rig.recreate("unique")
    rig.send("unique", 120, who="a")
    with pytest.raises(TopicReplacedError, match="no record of the new topic was counted"):
        rig.drain(project)
    assert rig.drain(rig.of("unique", on_recreate="continue")) == 120
    assert rig.drain(project) == 0
    assert rig.check("unique", distinct=True) == 210


@pytest.mark.long
def test_a_log_that_was_cut_off_and_has_grown_again_is_noticed(rig: KafkaRig) -> None:
    project = rig.of("logs")
    rig.drain(project)
    for partition in (0, 1):
        rig.send("logs", 50, partition)
    assert rig.drain(project) == 100
    # Kafka starts again, which gives each partition another leader's epoch. All is as it was.
    with rig.running(project) as running:
        rig.stop_broker()
        rig.start_broker()
        rig.send("logs", 10, 1)
        running.wait_for(10)
    running.done.result()
    rig.check("logs")

    # While it is stopped, a partition has lost its records. Others stand there, and beyond.
    read = restore_older(rig, "logs", 0)
    rig.send("logs", 80)
    with pytest.raises(SourceError, match=r"topic 'logs' partition 0: the record at offset 49 is not the one"):
        rig.drain(project)
    others = rig.forget("logs", 0)
    rig.check("logs", accepted=read)
    with pytest.raises(SourceError, match=r"`hourline reset logs --to logs:0=50`"):
        rig.reset("logs")
    rig.reset("logs", {("logs", 0): 50})
    assert rig.drain(project) == 30
    read |= {of: body for of, body in others.items() if of[2] >= 50}
    rig.check("logs", accepted=read)

    # The same under a running stream: what came after is in no answer before a person decides.
    with rig.running(project) as running:
        rig.send("logs", 10, 1)
        running.wait_for(10)
        restore_older(rig, "logs", 0)
        rig.send("logs", 90)
        with pytest.raises(SourceError, match=r"topic 'logs' partition 0: the record at offset 79 is not the one"):
            running.done.result(120)
    rig.forget("logs", 0)
    rig.check("logs", accepted=read)
    rig.reset("logs", {("logs", 0): 90})

    # Records that retention has taken since are not missed.
    rig.send("logs", 5, 1)
    assert rig.drain(project) == 5
    rig.delete_before("logs", 1, max(of[2] for of in rig.produced["logs"] if of[1] == 1) + 1)
    assert rig.drain(project) == 0
    rig.send("logs", 5, 1)
    assert rig.drain(project) == 5
    rig.check("logs", accepted=read)


@pytest.mark.long
def test_another_kafka_at_the_same_address_is_noticed(rig: KafkaRig) -> None:
    project = rig.of("other")
    rig.drain(project)
    rig.send("other", 30)
    assert rig.drain(project) == 30
    rig.stop_broker()
    rig.lose_data()
    rig.start_broker()
    with pytest.raises(
        SourceError, match=r"was read from the Kafka cluster .* and the one at .* `hourline reset other`"
    ):
        rig.drain(project)
    ensure_topic(rig.kafka, "other", 1, {})
    (status,) = report_project_status(project, last=1).sources
    assert (status.records, status.lag) == (30, None)
    assert "is another one: source 'other' was read from cluster" in str(status.lag_unknown)
    delete_topic(rig.kafka, "other")
    rig.reset("other")  # which makes the topic
    rig.send("other", 2)
    (status,) = report_project_status(project, last=1).sources
    assert (status.lag, status.lag_unknown) == (2, None)
    rig.send("other", 18)
    assert rig.drain(project) == 20
    assert rig.check("other") == 50


def restore_older(rig: KafkaRig, topic: str, partition: int) -> dict[Address, Body]:
    """Start Kafka again without the records of a partition; returns what was produced to it."""
    produced = rig.forget(topic, partition)
    rig.stop_broker()
    rig.cut_off(topic, partition)
    rig.start_broker()
    return produced
