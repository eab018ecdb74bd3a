"""Whatever a library throws at a command, its user sees one sentence, and the right exit status."""

import errno
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pytest
from typer.main import get_command

from hourline.cli import app
from hourline.cli.options import ON_LOADED
from hourline_core.errors import ConflictError, FaultError, KafkaAwayError, SourceError, UsageError
from hourline_core.model import Project
from tests.support import raised
from tests.support.command_line import NO_KAFKA, PROJECT, Failing
from tests.support.kept_workspace import FOLDER
from tests.support.project_files import write_project

COMMANDS = [
    ["speed"],
    ["recompute"],
    ["backfill", "--from", "2024-05-06T20", "--to", "2024-05-06T22"],
    ["maintain"],
    ["verify"],
    ["verify", "--recount"],
    ["reset", "scans", "--yes"],
    ["import", "x.jsonl", "--source", "scans"],
    ["replay", "x.jsonl", "--source", "scans"],
    ["up"],
    ["plan"],
    ["query", "FROM flow"],
    ["status"],
    ["serve"],
]
OTHERS = [
    ["check"],
    ["test"],
    ["show", "flow"],
    ["graph"],
    ["advise", "grace", "scans"],
    ["expectations", "suggest", "flow"],
    ["schemas", "list"],
    ["airflow", "up"],
    ["airflow", "run"],
    ["audit", "flow", "--from", "2024-05-06T20", "--to", "2024-05-06T22"],
    ["accept", "flow", "2024-05-06T20", "--reason", "checked"],
    ["quality"],
    ["changes", "--since", "2024-05-06T20"],
    ["followers"],
    ["sinks"],
    ["send"],
    ["lookups", "--refresh"],
    ["late"],
    ["drift"],
    ["shell"],
    ["explain", "flow", "2024-05-06T20"],
    ["export", "x.duckdb"],
    ["sql"],
    ["gaps"],
    ["topics", "list"],
    ["down"],
]
WITHOUT_PROJECT = {"init", "schema"}
THROWN: list[tuple[BaseException, int, str]] = [
    (raised.FULL_LOG, 75, "is full"),
    (raised.FULL_JAVA, 75, "is full"),
    (raised.PANIC, 75, "is full"),
    (raised.PanicException("index out of bounds"), 70, "a fault of Hourline: PanicException: index out of bounds"),
    (EOFError("no more bytes"), 70, "a fault of Hourline: EOFError: no more bytes"),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 70, "a fault of Hourline: BrokenPipeError"),
    (raised.READ_ONLY, 75, "is read-only"),
    (OSError(errno.EROFS, "Read-only file system"), 75, "is read-only"),
    (MemoryError(), 75, "memory"),
    (raised.HEAP, 75, "spark.driver_memory"),
    (raised.AWAY, 75, "does not answer (Timed out waiting for a node assignment"),
    (raised.REFUSED, 1, "has refused (Not authorized to access topics: [visits])"),
    (raised.WORKER, 75, "ValueError: the sketch is garbage"),
    (PermissionError(errno.EACCES, "Permission denied"), 1, "permissions"),
    (SourceError("records are gone"), 65, "records are gone"),
    (ConflictError("another process writes"), 75, "another process writes"),
    (KeyError("hour"), 70, "a fault of Hourline: KeyError: 'hour'"),
    (FaultError("the stream of source 'x' stopped"), 70, "the stream of source 'x' stopped"),
]
THROWN_IN = [
    # All commands tell faults by the same code. So each fault is thrown in a quarter of the commands.
    pytest.param(
        command,
        *thrown,
        id=f"{command[0]}-{type(thrown[0]).__name__}",
        marks=[] if (number + place) % 4 == 0 else pytest.mark.long,
    )
    for number, command in enumerate(COMMANDS)
    for place, thrown in enumerate(THROWN)
]


@pytest.mark.parametrize(("command", "error", "status", "words"), THROWN_IN)
def test_each_fault_is_one_sentence_in_each_command(
    failing: Failing,
    declared: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    error: BaseException,
    status: int,
    words: str,
) -> None:
    monkeypatch.setattr("hourline.cli.options._note_loaded", after_loading(error))
    said = failing.sentence(*command, folder=declared, status=status)
    assert words in said
    assert "\x1b" not in said
    if status == 70:
        assert f"the trace is in {declared / '.hourline' / 'logs' / 'errors.log'}" in said


@pytest.mark.parametrize("command", OTHERS, ids=[" ".join(command[:2]) for command in OTHERS])
def test_every_other_command_tells_a_fault_in_one_sentence(
    failing: Failing, declared: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("hourline.cli.options._note_loaded", after_loading(raised.FULL_LOG))
    assert "is full" in failing.sentence(*command, folder=declared, status=75)


def test_no_command_is_left_out() -> None:
    tried = {command[0] for command in (*COMMANDS, *OTHERS)}
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined] # it is a group
    assert tried | WITHOUT_PROJECT == {name for name, command in commands.items() if not command.hidden}


def test_the_trace_behind_a_sentence_about_kafka_is_in_the_log(
    failing: Failing, declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, status, cause in ((KafkaAwayError, 75, raised.AWAY), (SourceError, 65, raised.CORRUPT)):
        error = kind("the stream of source 'scans' stopped: its sentence")
        error.__cause__ = cause
        monkeypatch.setattr("hourline.cli.options._note_loaded", after_loading(error))
        said = failing.sentence("speed", folder=declared, status=status)
        log = declared / ".hourline" / "logs" / "errors.log"
        assert said == f"{error} (the trace is in {log})"
        assert cause._stackTrace in log.read_text()
    monkeypatch.setattr("hourline.cli.options._note_loaded", after_loading(KafkaAwayError("its sentence")))
    assert failing.sentence("speed", folder=declared, status=75) == "its sentence", "it has no trace"


@pytest.mark.parametrize(
    ("command", "makes"),
    [(["speed"], True), (["import", "x.jsonl", "--source", "scans"], True), (["query", "FROM flow"], False)],
)
def test_what_libraries_write_beside_python_has_a_place_in_a_new_workspace(
    failing: Failing, tmp_path: Path, command: list[str], makes: bool
) -> None:
    def look(project: Project) -> NoReturn:
        raise UsageError(f"there is a folder: {(project.workspace / 'logs').is_dir()}")

    before = ON_LOADED.set(look)
    try:
        assert failing.sentence(*command, folder=write_project(tmp_path, PROJECT)) == f"there is a folder: {makes}"
    finally:
        ON_LOADED.reset(before)


def after_loading(error: BaseException) -> Callable[[object], NoReturn]:
    """As if what a command does with its project had failed."""
    from hourline.cli import options

    def fail(project: object) -> NoReturn:
        options._LOADED.set(project)  # type: ignore[arg-type] # it is one
        raise error

    return fail


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A project with results, in a workspace."""
    with tarfile.open(FOLDER / "0.2.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_file_where_a_folder_must_be_is_named(failing: Failing, tmp_path: Path) -> None:
    write_project(tmp_path, PROJECT)
    file = tmp_path / ".hourline" / "run"
    file.parent.mkdir()
    file.touch()
    for command in ("status", "up", "down", "maintain", "speed"):
        assert f"{file} is a file, allowed is a folder" in failing.sentence(command, folder=tmp_path, status=1)


def test_tables_that_cannot_be_looked_up_are_not_taken_for_a_new_project(failing: Failing, kept: Path) -> None:
    tables = kept / ".hourline" / "tables"
    tables.rename(kept / "tables")
    tables.touch()
    for command in (["status"], ["plan"], ["gaps"], ["verify"], ["query", "FROM flow"]):
        said = failing.sentence(*command, folder=kept, status=1)
        assert f"the table at {tables}/" in said
        assert "cannot be looked up: Not a directory" in said


@pytest.mark.parametrize("garbage", ["''", "'abc'", "repeat('a', 100)"])
def test_a_garbage_sketch_is_told_in_one_sentence(failing: Failing, kept: Path, garbage: str) -> None:
    for function in ("distinct_count", "distinct_merge"):
        said = failing.sentence("query", f"SELECT {function}({garbage}::BLOB)", folder=kept)
        assert "bytes that are no theta sketch" in said
        assert "UDF" not in said


@pytest.mark.parametrize(
    ("command", "closed", "status"),
    [("status", "2", 0), ("status", "1", 0), ("status", "0", 0), ("query 'FROM nothing'", "2", 2)],
)
def test_a_command_does_without_a_closed_stream(kept: Path, command: str, closed: str, status: int) -> None:
    (kept / ".hourline" / "logs").mkdir()
    script = f"KAFKA={NO_KAFKA} exec {sys.executable} -m hourline {command} --project {kept} {closed}>&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, bool(done.stdout)) == (status, status == 0 and closed != "1"), done


@pytest.mark.parametrize("command", ["--help", "status", "quality", "query 'FROM hours' -f csv"])
def test_an_output_that_nobody_reads_ends_each_command_in_the_same_way(kept: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_in_shell(command, kept, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["status", "query 'FROM hours' -f csv"])
def test_an_output_that_cannot_be_written_is_no_full_disk_of_the_workspace(kept: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_in_shell(command, kept, stdout=full.fileno())
    told = b"hourline: the output cannot be written (no space left on device); make room where it goes"
    assert (done.returncode, done.stderr[: len(told)]) == (75, told)


def test_messages_that_cannot_be_written_change_nothing_else(kept: Path) -> None:
    done = run_in_shell("query 'FROM nothing' 2>/dev/full", kept, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_locale_of_ascii_loses_nothing_of_an_answer(kept: Path) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for command, words in (("query \"SELECT 'größe' AS ö\" -f csv", "ö\ngröße\n"), ("quality", "(hours × metrics)")):
        done = run_in_shell(command, kept.rename(kept.with_name("größe")), subprocess.PIPE, ascii_alone)
        assert words in done.stdout.decode(), done
        kept = kept.with_name("größe")


def test_variables_of_python_change_nothing_of_what_a_command_says(kept: Path) -> None:
    odd = {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "PYTHONINSPECT": "1", "PYTHONINTMAXSTRDIGITS": "640"}
    for command in ("recompute --help", "query \"SELECT repeat('9', 700)::VARCHAR AS n\" -f csv"):
        plain, done = (run_in_shell(command, kept, subprocess.PIPE, more) for more in ({}, odd))
        assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)


def run_in_shell(
    command: str, folder: Path, stdout: int, environment: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[bytes]":
    script = f"exec {sys.executable} -m hourline {command}"
    environment = {**os.environ, "KAFKA": NO_KAFKA, "HOURLINE_PROJECT": str(folder), **environment}
    return subprocess.run(
        ["sh", "-c", script], env=environment, stdout=stdout, stderr=subprocess.PIPE, timeout=600, check=False
    )


INTERRUPT_AT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["hourline", "status"]
from hourline.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "hourline.cli.verify"])
def test_an_interrupt_while_modules_are_imported_is_told_in_one_sentence(module: str) -> None:
    script = [sys.executable, "-c", INTERRUPT_AT.format(module=module)]
    done = subprocess.run(script, capture_output=True, env=os.environ, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"hourline: interrupted\n")


def test_a_limit_of_the_system_is_told_in_one_sentence(kept: Path) -> None:
    limited = f"ulimit -f 1; KAFKA={NO_KAFKA} exec {sys.executable} -m hourline verify --project {kept}"
    done = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, timeout=600, check=False)
    *_, last = done.stderr.splitlines()
    assert (done.returncode, last.count(f"{kept}/.hourline has reached the limit of a file's size")) == (75, 1), done
    assert "Traceback" not in done.stderr
