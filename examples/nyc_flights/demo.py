"""``python -m examples.nyc_flights.demo`` runs four days of flights through Hourline, and checks all answers.

The answers are compared with the CSV of the flights. Environment variables: ``KEEP=1`` leaves Kafka, the speed layer
and Airflow up at the end. ``WORKSPACE=folder`` is the folder of tables and logs (default: ``.hourline`` beside this
file). ``CI=true`` prints plain lines on a terminal, too.

The exit status is 1 when a number was wrong or a step failed, and 130 after Ctrl-C. All processes end with the demo,
even after kill -9, except those that ``KEEP`` starts at its end.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from examples.nyc_flights.check import Comparison
from examples.nyc_flights.flights import DAYS
from examples.nyc_flights.make_tables import data_folder
from examples.nyc_flights.oracle import Oracle
from examples.nyc_flights.screen import Screen, verdict
from examples.nyc_flights.stage import PROJECT, Stage, clear
from examples.nyc_flights.story import tell
from hourline_core.errors import HourlineError
from hourline_core.runtime.supervised import Supervised

_DIFFERENCES_SHOWN = 20
_NEXT = """\
Nothing is left running; the tables and reports stay, and reading them needs no stack:
  . .venv/bin/activate; export HOURLINE_PROJECT={project} HOURLINE_WORKSPACE={workspace}
  hourline query "SELECT carrier, sum(flights) AS flights, max(worst_delay) AS worst
    FROM departures GROUP BY carrier ORDER BY flights DESC"
  hourline status
  hourline serve --open   # all of it as a page in your browser, and over HTTP
The audit's reports: {reports}
Airflow's UI, with the runs of this demo: hourline airflow up   # says where, and the password; hourline airflow down"""
_NEXT_UP = """\
Kafka, the speed layer and Airflow are up (see above where its UI is; the audit's reports: {reports}).
Airflow's hourly DAG is paused, since it would go on with the hours of 2013; unpause it in the UI.
  . .venv/bin/activate; export HOURLINE_PROJECT={project} HOURLINE_WORKSPACE={workspace}
  hourline serve --open                                       # all of it as a page in your browser, live
  hourline status
  hourline replay {workspace}/demo/1.jsonl --source flights   # the same reports, after id_horizon: they count twice ...
  hourline recompute                                          # ... until this counts each once
  hourline down; hourline airflow down                        # stops all"""


def play(screen: Screen) -> int:
    """Run the demo on ``screen`` and return its exit status."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    workspace = Path(os.environ.get("WORKSPACE") or PROJECT / ".hourline").absolute()
    # SIGTERM ends the demo like Ctrl-C, which stops all of its processes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        clear(workspace)
        with Stage(screen, workspace) as stage:
            tell(stage, Oracle(stage.flights, data_folder(), DAYS))
        if keep:
            screen.title("What next?")
            stage.run("up")
            stage.run("airflow", "up")
        screen.say(
            (_NEXT_UP if keep else _NEXT).format(
                project=PROJECT, workspace=workspace, reports=(workspace / "quality" / "index.html").as_uri()
            )
        )
        status = conclude(screen, stage.comparison)
        if screen.is_watched:
            screen.title("All of it as a page, until Ctrl-C")
            _serve(workspace)
        return status
    except HourlineError as error:
        screen.say(f"the demo failed: {error}", "bold red")
        return 1
    except (KeyboardInterrupt, RuntimeError) as error:
        # During a query, DuckDB turns Ctrl-C into a RuntimeError of its own.
        if isinstance(error, RuntimeError) and str(error) != "Query interrupted":
            raise
        screen.say("interrupted; nothing is left running")
        return 130


def _serve(workspace: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "hourline",
        "serve",
        "--open",
        "--project",
        str(PROJECT),
        "--workspace",
        str(workspace),
    ]
    with Supervised(command, log=sys.stdout.fileno()) as serving, suppress(KeyboardInterrupt):
        serving.wait()


def conclude(screen: Screen, comparison: Comparison) -> int:
    """Print the differences and the verdict, and return the exit status."""
    for difference in comparison.differences[:_DIFFERENCES_SHOWN]:
        screen.say(difference, "red")
    screen.say("")
    screen.show(verdict(comparison))
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(play(Screen()))
