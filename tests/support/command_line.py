"""Commands of Hourline: as processes of their own, or, where they must fail, in the process of the test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hourline.cli import app, run
from tests.support import parcels
from tests.support.project_files import write_project

NO_KAFKA = "127.0.0.1:1"
PROJECT = {
    name: text.replace("TOPIC", "command_line").replace("RECORDS_PER_BATCH", "500")
    for name, text in parcels.FILES.items()
}


def hourline(*arguments: str, folder: Path, status: int) -> str:
    """Run a command as a process that must end with ``status``; returns its standard output, or, of a failure, its
    standard error.
    """
    environment = {**os.environ, "KAFKA": NO_KAFKA, "HOURLINE_PROJECT": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "hourline", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def answer(*arguments: str, folder: Path) -> str:
    """The standard output of a command that must not fail, run in this process."""
    done = CliRunner().invoke(app, [*arguments, "--project", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


class Failing:
    """Runs commands that must fail, in this process, since most of them take no time at all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def lines(self, *arguments: str, folder: Path, status: int) -> list[str]:
        """What is wrong, line by line, as a command says it that ends with ``status``."""
        self.monkeypatch.chdir(folder)
        self.monkeypatch.setenv("KAFKA", NO_KAFKA)
        self.monkeypatch.setattr(sys, "argv", ["hourline", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        output = self.capsys.readouterr()
        assert (ended.value.code, output.out) == (status, "")
        assert "Traceback" not in output.err
        told, prefix, said = output.err.partition("hourline: ")
        assert prefix, told
        return said.splitlines()

    def sentence(self, *arguments: str, folder: Path, status: int = 2) -> str:
        """The one line that a mistake gets."""
        (line,) = self.lines(*arguments, folder=folder, status=status)
        return line


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Failing:
    return Failing(monkeypatch, capsys)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that nothing was ever run for."""
    return write_project(tmp_path_factory.mktemp("declared"), PROJECT)
