"""`hourline shell` at a terminal of its own, and from a pipe."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import serving_layer
from serving_layer.query_output import fetch
from tests.support.bare_tables import BareTables
from tests.support.speed_process import wait_until

PATIENCE = 300.0
PROMPT = "hourline> "
# The shell on bare tables, which have no YAML to load.
MAIN = """
import sys
from pathlib import Path
from tests.support.bare_tables import BareTables
from hourline.cli import main, shell
shell.load = lambda folder, _: BareTables(folder, []).project
main()
"""


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    tables = BareTables(tmp_path / "clicks", hours=[0, 1, 1, 2])
    tables.start()
    tables.micro_batch(3)
    tables.publish(0)
    return tables


def command(tables: BareTables) -> list[str]:
    return [sys.executable, "-c", MAIN, "shell", "--project", str(tables.project.root)]


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "XDG_STATE_HOME": str(folder / "state"),
        "TERM": "xterm",
        "COLUMNS": "200",
    }


def test_bytes_are_shown_as_the_text_that_they_are(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        query = (
            """SELECT encode('{"depot": "größe"}') AS "the value", '\\xFF\\x22'::BLOB AS other, NULL::BLOB AS none"""
        )
        assert fetch(connection, query).rows == [('{"depot": "größe"}', "\\xFF\\x22", None)]


class Terminal:
    """A person at the prompt, who waits for what they want to see."""

    def __init__(self, tables: BareTables, folder: Path) -> None:
        self.unseen = ""
        self.master, slave = pty.openpty()

        def in_terminal() -> None:
            os.login_tty(slave)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # which whoever runs tests in the background may have ignored

        place = environment(folder)
        self.process = subprocess.Popen(
            command(tables),
            env=place,
            pass_fds=[slave],
            preexec_fn=in_terminal,  # noqa: PLW1509 (there are no threads)
        )
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def see(self, wanted: str) -> str:
        """What is shown from here on until ``wanted`` is."""
        while wanted not in self.unseen:
            ready, _, _ = select.select([self.master], [], [], PATIENCE)
            assert ready, f"waiting for {wanted!r}, saw {self.unseen!r}"
            self.unseen += os.read(self.master, 4096).decode()
        before, _, self.unseen = self.unseen.partition(wanted)
        return before

    def press_ctrl_c(self) -> None:
        """Again and again, as one does: Python overlooks one that comes just as it begins to wait for a key."""
        self.type("\x03")
        while "interrupted" not in self.unseen:
            ready, _, _ = select.select([self.master], [], [], 1)
            if ready:
                self.unseen += os.read(self.master, 4096).decode()
            else:
                self.type("\x03")
        self.see("interrupted")
        self.see(PROMPT)

    def wait_until_it_works(self) -> None:
        """Until it has taken half a second more of processor time."""
        before = self._worked()
        wait_until(lambda: self._worked() > before + 0.5, "the query does not run")

    def _worked(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, text: str) -> str:
        self.type(f"{text}\r")
        self.see("\n")  # the end of the echo
        return self.see(PROMPT)


@pytest.fixture
def terminal(tables: BareTables, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tables, tmp_path)
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
    terminal.process.wait()
    os.close(terminal.master)


def test_a_person_at_the_prompt(terminal: Terminal, tables: BareTables, tmp_path: Path) -> None:
    assert "clicks as of publication 1; clicks up to sequence 1" in terminal.see(PROMPT)
    assert "final" in terminal.ask("SELECT state FROM totals WHERE hour = '2024-03-01 00:00:00Z';")
    assert "there is no view 'totls' — did you mean 'totals'?" in terminal.ask("FROM totls;")
    assert "exactly one SELECT" in terminal.ask("DROP VIEW totals;")
    terminal.type("SELECT ';' AS semicolon,\r")
    terminal.see("     ... ")
    assert "6,000" in terminal.ask("6000 AS n;")

    tables.micro_batch(1)
    assert "3" in terminal.ask("SELECT sum(n) FROM totals;")
    assert "clicks up to sequence 2" in terminal.ask(".refresh")
    assert "4" in terminal.ask("SELECT sum(n) FROM totals;")

    assert "late_events" in terminal.ask(".tables")
    assert "Ctrl-D leaves" in terminal.ask(".help")
    assert "did you mean '.tables'?" in terminal.ask(".table")
    terminal.type("SELECT count(*) AS howmany FROM late_e\t")
    terminal.see("late_events")
    assert "howmany" in terminal.ask(" ;")

    terminal.type("\x04")
    assert terminal.process.wait(PATIENCE) == 0
    history = tmp_path / "state" / "hourline" / "shell_history"
    assert "6000 AS n;" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_stops_a_query_or_what_is_typed_and_the_shell_goes_on(terminal: Terminal) -> None:
    terminal.see(PROMPT)
    terminal.type("SELECT 1,\r")
    terminal.see("     ... ")
    terminal.press_ctrl_c()
    for _ in range(2):
        terminal.type("SELECT count(*) FROM range(1000000000000) a WHERE range % 7 = 3;\r")
        terminal.wait_until_it_works()
        terminal.press_ctrl_c()
        terminal.type("SELECT 6 * 7 AS answer;\r")
        terminal.see("    42")
        terminal.see(PROMPT)


def piped(tables: BareTables, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(tables),
        input=text,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_pipe_brings_several_statements(tables: BareTables, tmp_path: Path) -> None:
    done = piped(tables, tmp_path, "SELECT 1 AS a; SELECT 2 AS b;\n\nSELECT\n 3 AS c")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.strip() for line in done.stdout.splitlines()] == ["a", "1", "b", "2", "c", "3"]


def test_the_first_mistake_in_a_pipe_ends_it(tables: BareTables, tmp_path: Path) -> None:
    done = piped(tables, tmp_path, "SELECT 1 AS a;\nFROM totls;\nSELECT 2 AS b;\n")
    assert done.returncode == 2
    assert [line.strip() for line in done.stdout.splitlines()] == ["a", "1"]
    assert done.stderr == "hourline: there is no view 'totls' — did you mean 'totals'?\n"
