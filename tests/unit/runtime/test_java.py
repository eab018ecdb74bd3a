"""Which Java is found, and one clear sentence when there is none that will do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hourline_core.errors import ResourceError, SetupError
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings
from hourline_core.runtime.java import find_java

MakeJava = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def nothing_found_before() -> Iterator[None]:
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.fixture
def make_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJava:
    """Makes a Java home whose `java` runs a line of shell; neither JAVA_HOME nor PATH names any other Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    def make(name: str, shell: str) -> Path:
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\n{shell}\n")
        java.chmod(0o755)
        return java

    return make


def says(version: str) -> str:
    return f"""echo 'Picked up JAVA_TOOL_OPTIONS: -Dx="1"' >&2; echo 'openjdk version "{version}" 2025-01-01' >&2"""


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_17_or_newer_on_the_path_will_do(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java = make_java("jdk", says(version))
    monkeypatch.setenv("PATH", str(java.parent))
    assert find_java() == java


def test_java_home_goes_before_the_path(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(make_java("on_path", says("21")).parent))
    named = make_java("named", says("17"))
    monkeypatch.setenv("JAVA_HOME", str(named.parent.parent))
    assert find_java() == named


@pytest.mark.parametrize(("version", "release"), [("1.8.0_392", 8), ("11.0.2", 11), ("16", 16)])
def test_an_older_java_is_refused(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, version: str, release: int
) -> None:
    java = make_java("old", says(version))
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(
        SetupError, match=rf"{java} is Java {release}, but Hourline needs Java 17 or newer; install .* set JAVA_HOME"
    ):
        find_java()


@pytest.mark.usefixtures("make_java")
def test_no_java_at_all() -> None:
    with pytest.raises(
        SetupError, match="there is no Java: JAVA_HOME is not set and no 'java' is on PATH; install Java 17 or newer"
    ):
        find_java()


@pytest.mark.usefixtures("make_java")
def test_a_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=rf"JAVA_HOME is '{tmp_path}', but there is no {tmp_path}/bin/java; set it to"):
        find_java()


def test_a_stand_in_without_a_java_behind_it(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    java = make_java("stub", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("PATH", str(java.parent))
    with pytest.raises(
        SetupError, match=r"java -version' ended with status 1 and printed 'Unable to locate a Java Runtime\.'; install"
    ):
        find_java()


def test_a_java_that_gets_no_memory_is_not_taken_for_none(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "Picked up JAVA_TOOL_OPTIONS: -Dx='1'\nError occurred during initialization of VM\nCould not allocate metaspace"
    )
    java = make_java("limited", f'echo "{words}" >&2; exit 1')
    monkeypatch.setenv("PATH", str(java.parent))
    with pytest.raises(
        SetupError, match=r"printed 'Error occurred during .* / Could not allocate metaspace'"
    ) as raised:
        find_java()
    told = explain_fault(raised.value, Surroundings())
    assert isinstance(told, ResourceError) and "memory" in str(told) and "install" not in str(told)


def test_a_java_that_is_not_executable(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    java = make_java("plain", says("17"))
    java.chmod(0o644)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(SetupError, match=r"does not run: .*Permission denied.*; install"):
        find_java()
