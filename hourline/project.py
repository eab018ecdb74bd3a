"""What ``import hourline`` gives to run things: a project whose methods run commands, each in a process of its own.

So a notebook needs no Spark in its own process, and whatever happens there is what happens on the command line. A
command reads the declarations from the project's folder.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hourline.exit_status import BLOCKED, EX_TEMPFAIL, FOUND, MISTAKE, USAGE
from hourline.run_command import run_command
from hourline_core.errors import DeclarationError, HourlineError, UsageError
from hourline_core.model import Project as DeclaredProject
from hourline_core.model import load_project as load_declarations
from hourline_core.model.hours import hour_text

if TYPE_CHECKING:
    import pyarrow as pa

Say = Callable[[str], None]
"""Gets each line that a command prints."""


def _print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


class CommandError(HourlineError):
    """A command has failed. The text is its sentence. ``status`` is its exit status (`exit_status.py`)."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status
        self.retryable = status == EX_TEMPFAIL


@dataclass(frozen=True)
class Recomputed:
    """The outcome of a recompute."""

    hours: int
    """The number of hours that were to be recomputed."""
    published: Mapping[str, Sequence[datetime]]
    """By metric, the hours (UTC) that were published."""
    blocked: Mapping[str, Sequence[datetime]]
    """By metric, the hours (UTC) that did not pass their audit. Their earlier results are served."""
    findings: Sequence[str]
    """The open findings of the sources, in sentences."""


class Project(DeclaredProject):
    """A project. ``load_project`` gives it.

    Each method but ``query`` runs a command in the environment of this process, prints its lines on standard error, and
    returns when it has ended. It raises UsageError for a wrong argument, and CommandError if the command fails.
    """

    def check(self, say: Say = _print_line) -> None:
        """Find mistakes in the declarations, as `hourline check`. Raises DeclarationError with all of them."""
        self._run(["check"], say)

    def up(self, say: Say = _print_line) -> None:
        """Start Kafka, the speed layer and the sinks in the background, as `hourline up`. They outlive this process."""
        self._run(["up"], say)

    def down(self, say: Say = _print_line) -> None:
        """Stop what ``up`` has started, as `hourline down`."""
        self._run(["down"], say)

    def replay(self, file: str | Path, source: str, *options: str, say: Say = _print_line) -> None:
        """Send the records of a file to the topic of ``source``, as `hourline replay`. ``options`` are further ones of
        the command, such as ``"--speed", "60"``.
        """
        self._run(["replay", str(Path(file).absolute()), "--source", source, *options], say)

    def recompute(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        metrics: Sequence[str] = (),
        *,
        include_open: bool = False,
        say: Say = _print_line,
    ) -> Recomputed:
        """Recompute, audit and publish the hours from ``start`` to ``end`` (aware, on the hour, the end is exclusive),
        or those that `hourline plan` lists. Hours that did not pass their audit raise nothing.
        """
        times = [None if moment is None else _hour(moment) for moment in (start, end)]
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.json"
            command = ["recompute", "--results", str(results)]
            for option, moment in zip(("--from", "--to"), times, strict=True):
                command += [option, moment] if moment else []
            for metric in metrics:
                command += ["--metric", metric]
            self._run([*command, *(["--include-open"] if include_open else [])], say)
            told: dict[str, Any] = json.loads(results.read_text())
        published, blocked = (
            {metric: [datetime.fromisoformat(hour) for hour in of] for metric, of in told[name].items()}
            for name in ("published", "blocked")
        )
        return Recomputed(told["hours"], published, blocked, [one["sentence"] for one in told["findings"]])

    def query(self, sql: str, as_of: str | None = None, *, strict: bool = False) -> "pa.Table":
        """The rows of one SELECT over the merged views, as an Arrow table. ``as_of`` is a token or a time (ISO text).
        ``strict`` raises UnreliableResultError for hours that are not to be relied on. Raises UsageError, TableError.
        """
        from serving_layer import connect

        with connect(self, as_of=as_of, strict=strict) as connection:
            return connection.sql(sql).to_arrow_table()

    def _run(self, arguments: Sequence[str], say: Say) -> None:
        status, sentence = run_command(arguments, self.root.absolute(), self.workspace, say)
        if status in (0, BLOCKED, FOUND):
            return
        said = sentence or f"`hourline {arguments[0]}` ended with status {status}; the lines above say why"
        if status == USAGE:
            raise UsageError(said)
        if status == MISTAKE and arguments[0] == "check":
            raise DeclarationError(said)
        raise CommandError(said, status)

    @classmethod
    def _of(cls, declared: DeclaredProject) -> Self:
        made = object.__new__(cls)
        for field in fields(declared):  # They were checked, and are bound to each other.
            object.__setattr__(made, field.name, getattr(declared, field.name))
        return made


def _hour(moment: datetime) -> str:
    if moment.tzinfo is None or moment.astimezone(UTC) != moment.astimezone(UTC).replace(
        minute=0, second=0, microsecond=0
    ):
        raise UsageError(f"got {moment.isoformat()}, allowed is an hour with its offset from UTC, on the hour")
    return hour_text(moment.astimezone(UTC))


def load_project(
    root: str | Path, environ: Mapping[str, str] = os.environ, workspace: str | Path | None = None
) -> Project:
    """Read the declarations below ``root``: `hourline.yaml` and the files beside it. No Python of the project runs.

    ``environ`` has the variables for these declarations. Commands read them again, in the environment of this process.
    ``workspace`` overrides the setting, and is relative to the working directory. Raises UsageError when ``root`` is
    no project. Raises DeclarationError with all mistakes, one per line.
    """
    return Project._of(load_declarations(Path(root).absolute(), environ, Path(workspace) if workspace else None))
