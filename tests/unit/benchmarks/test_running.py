"""What benchmarks are called with: nothing is measured by mistake."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks import __main__ as all_of_them
from benchmarks import page
from benchmarks.figures import Figure
from benchmarks.running import run


class MeasuredError(Exception):
    """A benchmark measures, with what it was given."""


def _measure(*given: object) -> Iterator[Figure]:
    raise MeasuredError(*given)
    yield


@pytest.mark.parametrize("arguments", ["--fill", "full", "--ful", "--full id"])
def test_an_unknown_argument_measures_nothing(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["start", *arguments.split()])
    with pytest.raises(SystemExit) as refused:
        run("start", _measure)
    assert refused.value.code == 2
    assert f"unrecognized arguments: {arguments.rsplit(maxsplit=1)[-1]}" in capsys.readouterr().err


def test_help_measures_nothing_and_says_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["start", "--help"])
    with pytest.raises(SystemExit) as ended:
        run("start", _measure)
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "usage: python -m benchmarks.start [-h] [--full]" in said
    assert str(__doc__) in said


@pytest.mark.parametrize(("arguments", "full"), [([], False), (["--full"], True)])
def test_a_benchmark_measures_large_inputs_if_it_is_told_to(
    arguments: list[str], full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["start", *arguments])
    with pytest.raises(MeasuredError) as measured:
        run("start", _measure)
    assert measured.value.args == (full,)


def test_a_benchmark_of_cases_measures_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, measures in ([], (False, [])), (["--full", "ids"], (True, ["ids"])):
        monkeypatch.setattr(sys, "argv", ["large_hours", *arguments])
        with pytest.raises(MeasuredError) as measured:
            run("large_hours", _measure, ["id", "ids"])
        assert measured.value.args == measures
    monkeypatch.setattr(sys, "argv", ["large_hours", "idz"])
    with pytest.raises(SystemExit):
        run("large_hours", _measure, ["id", "ids"])
    assert "got the case 'idz', allowed are id, ids" in capsys.readouterr().err


def test_all_benchmarks_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        started.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(page, "BENCHMARKS", ["start"])
    monkeypatch.setattr(subprocess, "run", start)
    for arguments in ([], ["--full"]):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        assert all_of_them.main() == 0
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--fill"])
    with pytest.raises(SystemExit):
        all_of_them.main()
    assert started == [["-m", "benchmarks.start"], ["-m", "benchmarks.start", "--full"]]
