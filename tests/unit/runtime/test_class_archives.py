"""Java shares classes between its starts where set-up has prepared them, and does without what is not whole."""

import os
import subprocess
import sys
from pathlib import Path
from typing import cast, get_args

import pytest
from pyspark.sql import SparkSession

from hourline_core.errors import SetupError
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.runtime.class_archives import class_archive, sharing_options
from hourline_core.runtime.class_training import install_archive, run_supervised
from hourline_core.runtime.jars import JarSet, fetch_jars
from hourline_core.runtime.java import find_java
from hourline_core.runtime.spark import spark_session

CLASS_PATH = os.pathsep.join(map(str, fetch_jars("broker")))


@pytest.mark.parametrize("which", get_args(JarSet))
def test_set_up_has_prepared_classes(which: JarSet) -> None:
    assert class_archive(which).exists(), (
        "the last step of set-up has failed; `python -m hourline_core.runtime.class_training` says why"
    )


def test_what_set_up_has_prepared_fits_the_java_and_the_jars_at_hand() -> None:
    options = ["-Xshare:on", *sharing_options("broker"), "-cp", CLASS_PATH, "-version"]
    done = subprocess.run([find_java(), *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_without_an_archive_java_is_told_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert sharing_options("spark") == []


def test_an_archive_that_is_not_whole_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = class_archive("broker").read_bytes()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    part = class_archive("broker").with_suffix(".part")
    part.parent.mkdir()
    part.write_bytes(written[: len(written) // 2])
    with pytest.raises(SetupError, match="Java wrote no valid archive for broker"):
        install_archive("broker", CLASS_PATH)
    assert list(part.parent.glob("*.jsa")) == list(part.parent.glob("*.part")) == []
    part.write_bytes(written)
    install_archive("broker", CLASS_PATH)
    assert sharing_options("broker")[0] == f"-XX:SharedArchiveFile={class_archive('broker')}"


def test_the_work_of_set_up_ends_at_its_time_limit_with_what_it_has_started(tmp_path: Path) -> None:
    words = tmp_path / "words"
    os.mkfifo(words)
    script = 'exec >"$0"; trap "" TERM; sleep 1000 & echo ready; wait'
    said = os.open(words, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(SetupError, match="took more than 5 s, and was ended"):
        run_supervised(["sh", "-c", script, str(words)], tmp_path / "log", 5)
    os.set_blocking(said, True)
    assert os.read(said, 100) == b"ready\n"
    assert os.read(said, 100) == b"", "the end is reached only when nothing has it open any more"
    os.close(said)


def test_the_work_of_set_up_tells_why_it_has_failed(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the reason"):
        run_supervised(["sh", "-c", "echo first; echo the reason; exit 1"], tmp_path / "log", 20)


def test_what_else_java_is_told_holds_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "gc.log"
    options = [f"-Xlog:gc*:file={log}", *sharing_options("broker"), "-cp", CLASS_PATH, "-version"]
    subprocess.run([find_java(), *options], capture_output=True, check=True)
    assert "Serial" in log.read_text() or "G1" in log.read_text()


def test_settings_add_to_the_class_path_and_the_options_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: dict(builder._options))
    monkeypatch.setattr("hourline_core.runtime.spark.look_up_classes_once", lambda spark: None)
    monkeypatch.setattr("hourline_core.runtime.spark.register_attempt", lambda spark: None)
    given = {"spark.driver.extraClassPath": "/theirs.jar", "spark.driver.extraJavaOptions": "-Dtheirs=1"}
    source = Source(
        name="rows", topic="rows", fields={"at": Field(type="string")}, event_time=EventTime(expression="at")
    )
    project = Project(tmp_path, Settings.model_validate({"spark": {"config": given}}), {"rows": source}, {})
    config = cast("dict[str, str]", spark_session(project, "test"))
    assert config["spark.driver.extraClassPath"] == "/theirs.jar"
    assert config["spark.driver.extraJavaOptions"].startswith("-Dtheirs=1 -Duser.language=en ")
    assert "delta-spark" in config["spark.driver.defaultExtraClassPath"]
    assert "log4j2-spark" in config["spark.driver.defaultJavaOptions"]
