"""A mistake in hourline.yaml names the key, what was got, and what is allowed; it never shows a secret."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import mistakes

REGISTRY = "allowed is http://HOST:PORT or https://HOST:PORT, or several of them with commas between"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafak: {}", "1: kafak: is not a known key — did you mean 'kafka'?"),
        ("kafka:\n  prot: 1", "2: kafka.prot: is not a known key — did you mean 'port'?"),
        ("kafka: {port: 99999}", "1: kafka.port: got '99999', allowed is a whole number up to 65535"),
        (
            "kafka: {bootstrap: localhost}",
            "1: kafka.bootstrap: got 'localhost', allowed is host:port, or several of them with commas between",
        ),
        (
            "kafka:\n  bootstrap: localhost:9092\n  port: 9092",
            "3: kafka.port: got both bootstrap and port, allowed is one: port is for Hourline's own Kafka, bootstrap for another",
        ),
        (
            "kafka: {options: {sasl.pasword: secret}}",
            "1: kafka.options.sasl.pasword: got the option 'sasl.pasword', which Hourline does not pass on — did you mean 'sasl.password'?",
        ),
        ("kafka: {options: {sasl.password: [secret]}}", "1: kafka.options.sasl.password: got a list, allowed is text"),
        (
            "spark: local",
            "1: spark: got 'local', allowed is a mapping with the keys master, driver_memory, worker_memory, config",
        ),
        ("spark: {driver_memory: big}", "1: spark.driver_memory: got 'big', allowed is a size such as 512m or 2g"),
        ("spark: {worker_memory: 2}", "1: spark.worker_memory: got '2', allowed is a size such as 512m or 2g"),
        ("spark: {worker_memory: 0m}", "1: spark.worker_memory: got '0m', allowed is a size such as 512m or 2g"),
        (
            "spark: {config: {sql.x: 1}}",
            "1: spark.config.sql.x: got the key 'sql.x', allowed are Spark's own, which start with 'spark.'",
        ),
        (
            "registry: {url: 'https://me:secret@registry'}",
            f"1: registry.url: got a URL with an '@', {REGISTRY}; give a user as registry.user and registry.password",
        ),
        ("registry: {url: 'registry:8081'}", f"1: registry.url: got 'registry:8081', {REGISTRY}"),
        ("registry: {url: 'http://a:1,ftp://b'}", f"1: registry.url: got 'http://a:1,ftp://b', {REGISTRY}"),
        ("registry: {url: 'http://a:99999'}", f"1: registry.url: got 'http://a:99999', {REGISTRY}"),
        ("registry: {url: 'http://a?x=1'}", f"1: registry.url: got 'http://a?x=1', {REGISTRY}"),
        ("registry: {user: me}", "1: registry.url: is missing"),
        (
            "registry:\n  url: http://a\n  user: me",
            "3: registry.user: got one of user and password, allowed are both or none",
        ),
        (
            "registry:\n  url: http://a\n  password: secret",
            "3: registry.password: got one of user and password, allowed are both or none",
        ),
        (
            "registry: {url: http://a, user: 'a:secret', password: secret}",
            "1: registry.user: got a user with a ':', which basic authentication does not allow",
        ),
        ("registry: {url: http://a, user: a, password: [secret]}", "1: registry.password: got a list, allowed is text"),
        ("workspace: [a]", "1: workspace: got a list, allowed is a path"),
        ("storage_options: secret", "1: storage_options: got text, allowed is a mapping, `name: value`"),
    ],
)
def test_settings(tmp_path: Path, text: str, said: str) -> None:
    assert mistakes(tmp_path, {"hourline.yaml": text}) == [f"hourline.yaml:{said}"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "schedule: {cron: 99 * * * *}",
            "schedule.cron: got '99 * * * *', which never comes: allowed are minutes 0-59, ",
        ),
        ("schedule: {cron: H * * * *}", "schedule.cron: got 'H * * * *', allowed are the five fields of cron"),
        ("schedule: {maintenance: 0 0 31 2 *}", "schedule.maintenance: got '0 0 31 2 *', which never comes"),
        ("schedule: {timezone: localtime}", "schedule.timezone: got 'localtime', allowed are names such as UTC"),
        (
            "schedule: {alert: ./page.sh}",
            "schedule.alert: got './page.sh', allowed is a list of words, such as [./page.sh, --urgent]",
        ),
        ('schedule: {alert: [""]}', "schedule.alert: got a list with an empty first word or a NUL character"),
        (
            "schedule: {deadline: 9999999d}",
            "schedule.deadline: got '9999999d', which is too long: allowed are at most 36500d",
        ),
        (
            "airflow: {database: 'postgresql://u:p@ss@host/db'}",
            "airflow.database: got something else, allowed is postgresql://",
        ),
        (
            "airflow: {database: 'postgresql://u:p%ss@host/db'}",
            "airflow.database: got something else, allowed is postgresql://",
        ),
    ],
)
def test_schedules_that_airflow_could_not_follow(tmp_path: Path, line: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"hourline.yaml": f"{line}\n"})
    assert found.startswith(f"hourline.yaml:1: {said}")
    assert "ss@host" not in found
