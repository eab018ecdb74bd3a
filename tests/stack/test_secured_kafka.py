"""Hourline on a Kafka as companies run it: with TLS, with users of each kind, and with no more rights than it needs. Each
mistake ends in one sentence that names the option or the right, and no password is in a file or an argument.
"""

import datetime
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hourline import load_project
from hourline_core.errors import HourlineError, KafkaAwayError, KafkaForbidsError
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings
from hourline_core.runtime.kafka_admin import admin
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topic_reader import TopicReader
from hourline_core.runtime.topics import topic_id_of, topic_offsets
from speed_layer.kafka.client_options import java_client_options
from speed_layer.spark_session import speed_session
from tests.support import parcels
from tests.support.certificates import Authority, PemFiles
from tests.support.command_line import hourline
from tests.support.secured_kafka import CANARY, PASSWORD, SECRET, SecuredKafka, secured_kafka
from tests.support.speed_process import SpeedProcess, descendants, wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

TOPIC = "secured"
USERS = ("reader", "writer", "nobody")
KEY_PASSWORD = f"{CANARY}-of-a-key"
READING_OPTIONS = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
"""A refusal comes within a second, and a Kafka that says nothing is given up in half a minute."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured"), USERS) as secured:
        yield secured


@pytest.fixture
def project(secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackProject:
    """One whose own Kafka is that of SCRAM; the tests send to the plain one."""
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    project = parcels.make(tmp_path, secured.plain, topic=TOPIC, few=True)
    declare(project, secured.listeners["SCRAM"], {**scram(secured, "reader"), "sasl.password": "${KAFKA_PASSWORD}"})
    return project


def declare(project: StackProject, address: str, options: Mapping[str, str]) -> None:
    file = project.root / "hourline.yaml"
    lines = "".join(f"    {name}: '{value}'\n" for name, value in options.items())
    own = f"kafka:\n  bootstrap: '{address}'\n  options:\n{lines}"
    others = [line for line in file.read_text().splitlines() if line and not line.startswith((" ", "kafka:"))]
    file.write_text("\n".join(others) + f"\n{own}")
    project.project = load_project(project.root)


def tls(secured: SecuredKafka) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(secured.authority.file)}


def scram(secured: SecuredKafka, user: str, password: str = PASSWORD) -> dict[str, str]:
    named = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
    return {**tls(secured), "security.protocol": "SASL_SSL", **named}


def mutual(secured: SecuredKafka, files: PemFiles, password: str | None = None) -> dict[str, str]:
    own = {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
    return {**tls(secured), **own, **({} if password is None else {"ssl.key.password": password})}


def tokens(secured: SecuredKafka, **changed: str) -> dict[str, str]:
    asked = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "reader",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": secured.tokens.url,
        "https.ca.location": str(secured.authority.file),
    }
    return {**tls(secured), "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **asked, **changed}


def test_a_user_who_may_only_read_the_topic_runs_the_speed_layer_and_no_secret_is_anywhere(
    secured: SecuredKafka, project: StackProject
) -> None:
    secured.allow("reader", "read", "topic", TOPIC)
    project.send("scans", parcels.scans(project.random, 200, first_hour=0, hours=3))
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        counted(project)
        see_no_secret(descendants(os.getpid()))
        speed.stop()
    assert project.check() > 100
    see_records_read_again(project)
    told = project.command("status", "--format", "json") + project.command("quality", status=None)
    assert CANARY not in told
    see_each_right_that_a_sink_needs(secured, project)
    see_no_secret_in(project.root)
    secured.take_back("reader")


def see_records_read_again(project: StackProject) -> None:
    """As each start reads the last records. The client names a consumer group, which this user may not read."""
    kafka = project.project.settings.kafka
    assert kafka.bootstrap
    place = (TOPIC, 0)
    ends = topic_offsets(kafka.bootstrap, TOPIC, kafka.options)
    last = KafkaFacts(kafka.bootstrap, kafka.options, "hourline.group").records_at({place: ends[0][1] - 1})
    with TopicReader(
        kafka.bootstrap, TOPIC, topic_id_of(kafka.bootstrap, TOPIC, kafka.options), kafka.options
    ) as reader:
        (record,) = reader.read_last({0: 0}, {0: ends[0][1]}, 1)
    assert last[place].value == record.value


def see_each_right_that_a_sink_needs(secured: SecuredKafka, project: StackProject) -> None:
    topic, sink = f"{TOPIC}_results", f"hourline-sink-{project.project.name}/results"
    (project.root / "sinks").mkdir()
    (project.root / "sinks" / "results.yaml").write_text(f"metric: flow\ntopic: {topic}\n")
    for right, kind, name in (
        ("create", "topic", topic),
        ("describe", "topic", topic),
        ("describe_configs", "topic", topic),
        ("write", "transactional_id", sink),
        ("write", "topic", topic),
    ):
        told = hourline("send", "--drain", folder=project.root, status=1)
        assert told.startswith("hourline: sink results: Kafka at ") and told.count("\n") == 1, told
        assert "does not allow this user to " in told and " needs the right " in told, told
        secured.allow("reader", right, kind, name)
    hourline("send", "--drain", folder=project.root, status=0)
    secured.allow("reader", "read", "topic", topic)
    shutil.rmtree(project.project.workspace / "sinks")  # So what was sent is read from the topic.
    hourline("send", "--drain", folder=project.root, status=0)


def counted(project: StackProject) -> None:
    wait_until(
        lambda: len(project.sequences("scans")) >= len(project.sent["scans"]), "what was sent does not count", 0.5
    )


def see_no_secret(processes: list[int]) -> None:
    """No secret is among the arguments of a process."""
    lines = []
    for process in processes:
        try:
            lines.append(Path(f"/proc/{process}/cmdline").read_bytes())
        except OSError:  # it has ended
            continue
    assert any(b"java" in line for line in lines)
    assert not [line for line in lines if CANARY.encode() in line]


def see_no_secret_in(folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert any(file.suffix == ".log" for file in files)
    assert not [file for file in files if CANARY.encode() in file.read_bytes()]


def test_each_way_to_say_who_one_is_lets_both_clients_in_and_what_is_wrong_is_named_by_both(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    project = parcels.make(tmp_path, secured.plain, topic="ways", few=True)
    project.send("scans", parcels.scans(project.random, 50, first_hour=0, hours=2))
    other = Authority(tmp_path, "other")
    shop, protected = secured.authority.issue("shop"), secured.authority.issue("guarded", password=KEY_PASSWORD)
    for user in ("reader", "shop", "guarded"):
        secured.allow(user, "read", "topic", "ways")
    good = [
        ("SCRAM", scram(secured, "reader")),
        ("PLAIN", {**scram(secured, "reader"), "sasl.mechanism": "PLAIN"}),
        ("MUTUAL", mutual(secured, shop)),
        ("MUTUAL", mutual(secured, protected, KEY_PASSWORD)),
        ("OAUTH", tokens(secured)),
        ("TLS", {**tls(secured), "ssl.endpoint.identification.algorithm": "none"}),
    ]
    expired = secured.authority.issue("expired", valid=-datetime.timedelta(days=1))
    no_ca = {"ssl.ca.location": str(other.file)}
    bad = [
        ("SCRAM", scram(secured, "reader", "wrong"), "check sasl.username, sasl.password and sasl.mechanism"),
        (
            "PLAIN",
            {**scram(secured, "reader", "wrong"), "sasl.mechanism": "PLAIN"},
            "check sasl.username, sasl.password and sasl.mechanism",
        ),
        ("SCRAM", {**scram(secured, "reader"), "sasl.mechanism": "PLAIN"}, "check sasl.mechanism"),
        ("TLS", {**tls(secured), **no_ca}, "check ssl.ca.location"),
        ("MUTUAL", tls(secured), "check ssl.certificate.location and ssl.key.location"),
        ("MUTUAL", mutual(secured, other.issue("stranger")), "check ssl.certificate.location and ssl.key.location"),
        ("MUTUAL", mutual(secured, expired), "check ssl.certificate.location and ssl.key.location"),
        (
            "OAUTH",
            tokens(secured, **{"sasl.oauthbearer.client.secret": "wrong"}),
            "check sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
        ),
        ("OAUTH", tokens(secured, **{"https.ca.location": str(other.file)}), "check https.ca.location"),
    ]
    with speed_session(project.project) as spark:
        for listener, options in good:
            assert count_by_java(spark, secured.listeners[listener], options) == 50, listener
            list_topics(secured.listeners[listener], options)
        for listener, options, said in bad:
            address = secured.listeners[listener]
            see_one_sentence(refusal_of(address, options), address, said)
            if said == "check https.ca.location":  # Java tries again for half a minute.
                continue
            with pytest.raises(Exception) as failed:
                count_by_java(spark, address, options)
            explained = explain_fault(failed.value, Surroundings(kafka=address))
            assert isinstance(explained, KafkaForbidsError), explained
            see_one_sentence(explained, address, said)
        with pytest.raises(Exception) as failed:
            count_by_java(spark, secured.listeners["SCRAM"], scram(secured, "nobody"))
        explained = explain_fault(failed.value, Surroundings(kafka="B"))
        assert str(explained).endswith("give this user the right READ on that topic"), explained


def count_by_java(spark: SparkSession, address: str, options: Mapping[str, str]) -> int:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", "ways")
    named = {f"kafka.{name}": value for name, value in java_client_options(options).items()}
    return reader.options(**READING_OPTIONS, **named).load().count()


def list_topics(address: str, options: Mapping[str, str], seconds: float = 60.0) -> None:
    with admin(address, options, "list its topics", seconds) as client:
        client.list_topics(timeout=seconds)


def refusal_of(address: str, options: Mapping[str, str]) -> KafkaForbidsError:
    """The sentence comes once the client has been refused, which takes a while on a busy machine."""
    for seconds in (1.0, 10.0, 60.0):
        try:
            list_topics(address, options, seconds)
        except KafkaForbidsError as error:
            return error
        except KafkaAwayError:
            continue
    raise AssertionError("it was let in, or not refused within a minute")


def see_one_sentence(error: HourlineError, address: str, said: str) -> None:
    sentence = str(error)
    assert f"Kafka at {address} " in sentence and "\n" not in sentence, sentence
    assert f"{said} of kafka.options in hourline.yaml" in sentence, sentence
    assert CANARY not in sentence, sentence


@pytest.mark.parametrize(
    ("listener", "options"),
    [("TLS", {}), ("SCRAM", {"security.protocol": "SSL"}), ("PLAINTEXT", {"security.protocol": "SSL"})],
)
def test_another_protocol_than_that_of_the_address_is_told(
    secured: SecuredKafka, listener: str, options: dict[str, str]
) -> None:
    address = secured.listeners.get(listener, secured.plain.split(",")[0])
    trust = {"ssl.ca.location": str(secured.authority.file)} if options else {}
    with pytest.raises(KafkaAwayError, match=r"security\.protocol of kafka\.options in hourline\.yaml"):
        list_topics(address, {**options, **trust}, 3.0)


def test_each_right_that_a_command_lacks_is_named(secured: SecuredKafka, project: StackProject, tmp_path: Path) -> None:
    declare(project, secured.listeners["SCRAM"], scram(secured, "writer"))
    project.send("scans", parcels.scans(project.random, 5, first_hour=0, hours=1))
    file = tmp_path / "scans.jsonl"
    file.write_text('{"scan": "1", "depot": "north", "at": "2024-05-06T20:00:00Z"}\n')
    replay = ("replay", str(file), "--source", "scans")

    def refused(*command: str) -> str:
        return hourline(*command, folder=project.root, status=1)

    assert f"look for topic '{TOPIC}'; the user needs the right DESCRIBE on that topic" in refused(*replay)
    secured.allow("writer", "describe", "topic", TOPIC)
    assert "the user needs the right READ on that topic" in refused("topics", "tail", TOPIC)
    assert "the right WRITE on that topic" in refused(*replay)
    transactional = (*replay, "--transactional")
    assert "the transactional ids that begin with `hourline-`" in refused(*transactional)
    secured.allow("writer", "write", "transactional_id", "hourline-", prefixed=True)
    assert "the right WRITE on that topic" in refused(*transactional)
    secured.allow("writer", "write", "topic", TOPIC)
    project.command(*replay)
    assert "the user needs the right CREATE on" in refused("topics", "create", "another")
    secured.take_back("writer")


@pytest.mark.long
def test_a_certificate_that_has_expired_is_renewed_without_a_stop(secured: SecuredKafka, tmp_path: Path) -> None:
    name, valid = "renewed", datetime.timedelta(minutes=2)
    ends = datetime.datetime.now(datetime.UTC) + valid
    project = parcels.make(tmp_path, secured.plain, topic=name, few=True)
    secured.allow(name, "read", "topic", name)
    declare(project, secured.listeners["MUTUAL"], mutual(secured, secured.authority.issue(name, valid=valid)))
    project.send("scans", parcels.scans(project.random, 100, first_hour=0, hours=3))
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        counted(project)
        wait_until(lambda: datetime.datetime.now(datetime.UTC) > ends, "time stands still")
        # Connections that are open go on. A broker that comes back wants to see the certificate again.
        (node,) = secured.cluster.nodes
        node.kill()
        node.start()
        speed.wait_for("check ssl.certificate.location and ssl.key.location of kafka.options in hourline.yaml")
        secured.authority.issue(name)
        speed.wait_for("Kafka is back")
        project.send("scans", parcels.scans(project.random, 100, first_hour=0, hours=3))
        counted(project)
        speed.stop()
    assert project.check() > 100
