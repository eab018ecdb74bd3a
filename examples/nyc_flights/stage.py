"""The environment of the demo: its workspace, commands and hours, and the comparison with the oracle."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.nyc_flights.check import Comparison, compare
from examples.nyc_flights.commands import Command
from examples.nyc_flights.flights import Part, unpack
from examples.nyc_flights.hours import Hours
from examples.nyc_flights.oracle import Cells, Oracle, Sent
from examples.nyc_flights.scheduler import SETTINGS, Scheduler
from examples.nyc_flights.screen import Screen, verdict
from hourline import connect
from hourline_core.errors import HourlineError
from hourline_core.runtime.lease import LeaseName, lease_holder

PROJECT = Path(__file__).parent
_LOOK_EVERY_SECONDS = 0.7
_WAIT_SECONDS = 3.0  # frequent queries would slow the recompute down
_ARRIVAL_SECONDS = 60
_FINE = {"recompute": (0, 3), "quality": (0, 1)}


class Stage:
    """A context manager for the demo's processes. At its end, all of them are stopped."""

    def __init__(self, screen: Screen, workspace: Path) -> None:
        self.screen = screen
        self.workspace = workspace
        self.folder = workspace / "demo"
        """The demo's own files: the CSV, the reports, and the output of the commands."""
        self.comparison = Comparison()
        """The result of all checks so far."""
        self.answers: list[tuple[str, dict[str, Cells]]] = []
        """The token of each answer that was checked, and the oracle's cells."""
        self._commands: list[Command] = []
        self._sent = 0
        self._heartbeat = ""

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.flights = unpack(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for command in reversed(self._commands):
            command.stop()

    def run(self, *arguments: str) -> None:
        """Run a command to its end."""
        command = self._start(*arguments)
        while command.running(0.1):
            pass
        self.screen.output(command.lines())

    def start(self) -> None:
        """Start Kafka, the speed layer and Airflow. Wait until the speed layer is ready, but not for Airflow."""
        self._airflow = self._start("airflow", "run", settings=SETTINGS)
        self._speed = self._start("speed")
        lines: list[str] = []
        while not any(line.startswith("ready") for line in lines):
            self._speed.running(0.1)
            lines = [*self._speed.lines()]
            self.screen.output(lines)
        self.hours = Hours(connect(PROJECT, self.workspace))

    def wait_for_airflow(self) -> None:
        """Wait until Airflow is up."""
        lines: list[str] = []
        while not any(line.startswith("Airflow is at ") for line in lines):
            self._airflow.running(0.1)
            lines = [*self._airflow.lines()]
            self.screen.output(lines)
        url = next(line.split()[3].rstrip(";") for line in lines if line.startswith("Airflow is at "))
        self._scheduler = Scheduler(PROJECT, self.workspace, url)

    def scheduled(self, part: Part, speed: int) -> None:
        """Replay ``part`` like ``stream`` with Airflow's DAG unpaused, until one of its runs has recomputed hours."""
        self._scheduler.go_on()
        self.stream(part, speed, until=lambda: self._scheduler.recomputed is not None)
        self._scheduler.pause()
        run = self._scheduler.recomputed
        assert run
        because = " because of an hour that is blocked" if run["state"] == "failed" else ""
        self.screen.say(f"Airflow: {run['dag_id']}, the run of {run['partition_key']}: {run['state']}{because}")
        self.screen.output(list(self._scheduler.lines(run)))

    def stream(self, part: Part, speed: int, until: Callable[[], bool] | None = None) -> None:
        """Replay ``part`` at ``speed`` times real time, or at once if nobody watches and ``until`` is None. Show
        the hours until they contain all of it, and ``until`` holds.
        """
        pace = ["--speed", str(speed)] if until or self.screen.is_watched else []
        replay = self._start("replay", _shown(part.file), "--source", "flights", "--order-by", "reported", *pace)
        self._sent += part.reports
        with self.screen.moving():
            while replay.running(0):
                self._look(replay)
            self.screen.output(replay.lines())
            self._look(self._speed)
            deadline = time.monotonic() + _ARRIVAL_SECONDS
            while self.hours.flights < self._sent:
                if time.monotonic() > deadline:
                    raise self._late(f"{self.hours.flights} of {self._sent} reports have arrived")
                self._look(self._speed)
            while until and not until():
                self._look(self._speed, _WAIT_SECONDS)

    def report_weather(self, file: Path, *, takes_back: bool = False) -> None:
        """Replay a ``file`` with weather. With ``takes_back``, wait until a flight without weather is taken back."""
        self.run("replay", _shown(file), "--source", "weather", "--null-text", "NA")
        if takes_back:
            self._wait_for_join(lambda: self.hours.stale > 0, "no hour is stale")

    def check(self, oracle: Oracle, sent: Sent) -> None:
        """Compare all answers with the oracle's over what was ``sent``, once all of that is joined."""
        truth = oracle.metrics(sent)
        joined = sum(flights for flights, *_ in truth["winds"].values() if isinstance(flights, int))
        self._wait_for_join(lambda: self.hours.joined == joined, f"not {joined:,} flights are joined")
        self.answers.append((self.hours.connection.token, truth))
        self.add_comparison(compare(self.hours.connection, truth))

    def add_comparison(self, *comparisons: Comparison) -> None:
        """Show the sum of comparisons, and add it to the total."""
        together = Comparison()
        for comparison in comparisons:
            together.add(comparison)
        self.comparison.add(together)
        self.screen.show(verdict(together))

    def _wait_for_join(self, ready: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _ARRIVAL_SECONDS
        self.hours.refresh()
        while not ready():
            if time.monotonic() > deadline:
                raise self._late(otherwise)
            self._speed.running(_LOOK_EVERY_SECONDS)
            self.hours.refresh()

    def _late(self, what: str) -> HourlineError:
        return HourlineError(f"{what} {_ARRIVAL_SECONDS} s after the last one was sent; see the logs in {self.folder}")

    def _look(self, awaited: Command, seconds: float = _LOOK_EVERY_SECONDS) -> None:
        """Wait until ``awaited`` has ended, at most for ``seconds``, and then draw the hours."""
        awaited.running(seconds)
        self._speed.running(0)
        self._heartbeat = [self._heartbeat, *self._speed.lines()][-1]
        self.screen.look(self.hours, self.hours.refresh(), self._heartbeat)

    def _start(self, *arguments: str, settings: Mapping[str, str] | None = None) -> Command:
        log = self.folder / f"{len(self._commands) + 1:02}-{arguments[0]}.log"
        command = Command([*arguments], PROJECT, self.workspace, log, _FINE.get(arguments[0], (0,)), settings)
        self._commands.append(command)
        self.screen.command(command.text)
        return command


def _shown(file: Path) -> str:
    """The path of ``file`` for a command, which runs in the project."""
    return str(file.relative_to(PROJECT) if file.is_relative_to(PROJECT) else file)


def clear(workspace: Path) -> None:
    """Remove the files of an earlier demo from ``workspace``.

    Raises HourlineError when that demo still runs, or the folder contains other files.
    """
    running: list[tuple[LeaseName, str]] = [("speed", "down"), ("airflow", "airflow down")]
    for lease, stop in running:
        if lease_holder(workspace, lease):
            raise HourlineError(
                f"a demo is still up in {workspace}; "
                f"stop it with `hourline {stop} --project {PROJECT} --workspace {workspace}`"
            )
    if not workspace.exists():
        return
    if any(workspace.iterdir()) and not (workspace / "demo").is_dir():
        raise HourlineError(
            f"{workspace} contains files that are not from a demo; "
            "name another folder, as in make demo WORKSPACE=folder"
        )
    shutil.rmtree(workspace)
