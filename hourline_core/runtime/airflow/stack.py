"""Airflow's parts as children of this process: started in order, restarted when one ends, stopped together."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.runtime.airflow.api import AirflowApi, AirflowError
from hourline_core.runtime.airflow.configuration import configure, environment, home, kept_secrets
from hourline_core.runtime.airflow.postgres import Postgres
from hourline_core.runtime.airflow.run_retention import RunRetention
from hourline_core.runtime.notes import delete_note, note_file, write_note
from hourline_core.runtime.ports import LOOPBACK, free_ports, require_free
from hourline_core.runtime.supervised import Supervised

PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
"""The parts, by their names on Airflow's command line."""

_UP_WITHIN_SECONDS = 180.0
_AGAIN_AFTER_SECONDS = 2.0
_GRACE_SECONDS = 5.0
"""The scheduler would wait for its tasks. They cannot report their end, since the API server stops at the same time."""


class Airflow:
    """A context manager. Airflow answers at ``url`` within the block, and ends with this process at the latest.

    ``on_step`` is called with a description of each step. Raises SetupError (the port is taken, the database cannot be
    reached, a part does not start).
    """

    url: str

    def __init__(
        self,
        project: Project,
        dag_folder: Path,
        on_step: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._project = project
        self._dag_folder = dag_folder
        self._on_step = on_step
        self._stopped = stopped
        self._logs = project.workspace / "logs"
        self._running: dict[str, Supervised] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        settings = self._project.settings.airflow
        with ExitStack() as stack:
            if settings.port is not None:
                require_free(settings.port, "airflow.port in hourline.yaml")
            port = settings.port if settings.port is not None else free_ports(1)[0]
            self._database = self._postgres(stack)
            configure(self._project, self._dag_folder, self._database, port)
            self._migrate()
            self._on_step("starting its scheduler, API server, DAG processor and triggerer")
            stack.callback(self._stop)
            self.url = f"http://{LOOPBACK}:{port}"
            for part in PARTS:
                self._start(part)
            self._announce()
            stack.callback(delete_note, address_note(self._project))
            self._wait_until_healthy()
            self._run_retention = RunRetention(self._project)
            stack.callback(self._run_retention.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def keep_running(self) -> None:
        """Restart parts that have ended, and delete old runs once a day. Call this about once a second."""
        if self._embedded is not None and not self._embedded.alive():
            self._on_step("PostgreSQL has ended; starting it again")
            self._embedded.start()
            self._announced = False
        for part, process in list(self._running.items()):
            if not process.alive() and time.monotonic() - self._started[part] > _AGAIN_AFTER_SECONDS:
                self._on_step(f"the {part} has ended, with status {process.wait()}; starting it again")
                self._start(part)
                self._announced = False
        if not self._announced:
            with suppress(OSError):  # the disk is full; the next call retries
                self._announce()
        if self._run_retention.due():
            try:
                self._run_retention.begin()
            except OSError as error:
                self._on_step(f"old runs could not be deleted: {error}; the next attempt is in a day")
        if self._run_retention.failed():
            self._on_step(
                f"old runs could not be deleted; the next attempt is in a day; the log is {self._run_retention.log}"
            )

    def _postgres(self, stack: ExitStack) -> str:
        """Start the database or check that it answers, and return its URL."""
        url = self._project.settings.airflow.database
        self._embedded = None
        if url is None:
            self._on_step("starting PostgreSQL")
            folder = home(self._project) / "postgres"
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._embedded = stack.enter_context(
                Postgres(folder, kept_secrets(self._project)["database"], self._logs / "airflow-postgres.log")
            )
            return self._embedded.url
        import psycopg

        try:
            psycopg.connect(url, connect_timeout=10).close()
        except psycopg.ProgrammingError:  # its message may contain the password
            raise SetupError("airflow.database in hourline.yaml is no URL that PostgreSQL understands") from None
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise SetupError(f"airflow.database in hourline.yaml cannot be reached: {reason}") from None
        return url

    def _migrate(self) -> None:
        """Create or upgrade Airflow's tables, unless this version of Airflow has already done so here."""
        done = home(self._project) / "postgres" / "hourline.migrated" if self._embedded else None
        if done is not None and done.exists() and done.read_text() == version("apache-airflow"):
            return
        self._on_step("preparing its database")
        log = self._logs / "airflow-migrate.log"
        with Supervised(self._command("db", "migrate"), log=log, env=environment(self._project)) as migrating:
            if migrating.wait() != 0:
                raise SetupError(f"Airflow's database could not be prepared; its log is {log}")
        if done is not None:
            done.write_text(version("apache-airflow"))

    def _start(self, part: str) -> None:
        # Tasks and triggers run on this machine, so the API server reads their logs as files. Other parts need not
        # serve them.
        alone = ["--skip-serve-logs"] if part in ("scheduler", "triggerer") else []
        self._running[part] = Supervised(
            self._command(part, *alone), log=self._log(part), env=environment(self._project), grace=_GRACE_SECONDS
        )
        self._started[part] = time.monotonic()

    def _stop(self) -> None:
        """Stop all parts at the same time, since each takes seconds. Running tasks end with the scheduler."""
        for process in self._running.values():
            process.ask_to_stop()
        for process in self._running.values():
            process.stop()

    def _announce(self) -> None:
        pids = {part: process.pid for part, process in self._running.items()}
        if self._embedded is not None:
            pids["postgres"] = self._embedded.pid
        write_note(address_note(self._project), {"url": self.url, "parts": pids})
        self._announced = True

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + _UP_WITHIN_SECONDS
        dag_files = len(list(self._dag_folder.glob("*.py")))
        with AirflowApi(self._project, self.url) as api:
            while True:
                if self._stopped():
                    raise KeyboardInterrupt
                health, problem = api.health(), ""
                if health and all(state == "healthy" for state in health.values()):
                    try:
                        if api.has_parsed(dag_files):
                            api.create_pools()
                            return
                    except AirflowError as error:  # A busy API may take longer than a request waits.
                        problem = f"; {error}"
                for part, process in self._running.items():
                    if not process.alive():
                        raise SetupError(
                            f"Airflow's {part} ended with status {process.wait()}; its log is {self._log(part)}"
                        )
                if time.monotonic() > deadline:
                    unhealthy = (
                        ", ".join(part for part, state in health.items() if state != "healthy") or "the API server"
                    )
                    raise SetupError(
                        f"Airflow did not start within {_UP_WITHIN_SECONDS:.0f} s; not healthy: {unhealthy}{problem}; "
                        f"its logs are {self._log('*')}"
                    )
                time.sleep(0.2)

    def _command(self, *arguments: str) -> list[str | Path]:
        return [sys.executable, "-m", "airflow", *arguments]

    def _log(self, part: str) -> Path:
        return self._logs / f"airflow-{part}.log"


def address_note(project: Project) -> Path:
    """The note with the address of the running Airflow, ``url``, and the process of each part, ``parts``. A killed
    Airflow may leave it behind.
    """
    return note_file(project.workspace, "airflow")
