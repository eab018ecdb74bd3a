"""``shell``: a prompt on the merged results."""

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hourline.cli.options import AtLeastCounted, ProjectFolder, Wait, Workspace, load, parse_wait, require_known
from hourline.cli.output import note, say, say_result, say_table
from hourline_core.errors import HourlineError

if TYPE_CHECKING:
    from serving_layer import Connection

_HELP = """\
SQL ends with `;` and may take several lines. Ctrl-C stops a query, Ctrl-D leaves.
Tab completes views, and the columns of metrics.
.tables   the views, with their columns
.refresh  read from now on at the newest snapshot; until then, all queries see one moment
.help     this"""
_COMMANDS = [".help", ".refresh", ".tables"]


def shell(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    at_least: AtLeastCounted = None,
    wait: Wait = None,
) -> None:
    """Query the merged results at a prompt. From a pipe, run one statement after the other."""
    declared = load(project, workspace)
    asked, seconds = parse_wait(at_least, wait)
    from serving_layer import connect

    with connect(declared, at_least=asked, wait=seconds) as connection:
        if sys.stdin.isatty():
            _converse(connection)
            return
        while text := _read(_next_line, at_end="run"):
            _run(connection, text)  # The first mistake ends it, as in `hourline query`.


def _converse(connection: "Connection") -> None:
    from hourline.cli.line_editing import line_editing

    say(f"{connection.project.name} as of {connection.moment}; .help tells more")
    with line_editing(lambda: [*_COMMANDS, *_names(connection)]):
        while True:
            try:
                if (text := _read(input, at_end="forget")) is None:
                    break
                _run(connection, text)
            except HourlineError as error:
                note(str(error))
            except (KeyboardInterrupt, RuntimeError) as error:
                # DuckDB makes a RuntimeError of Ctrl-C.
                if isinstance(error, RuntimeError) and "Query interrupted" not in str(error):
                    raise
                note("\ninterrupted")
                connection.interrupt()  # Otherwise DuckDB would wait for ever for the stopped query.
    say("")


def _read(ask: Callable[[str], str], at_end: str) -> str | None:
    """A command, or SQL up to a `;` at the end of a line. None at the end of the input. SQL without its `;` is then
    ``run``; otherwise ``forget`` may drop it.
    """
    text = ""
    while True:
        try:
            line = ask("     ... " if text else "hourline> ")
        except EOFError:
            return text if text and at_end == "run" else None
        if not text and line.lstrip().startswith("."):
            return line.strip()
        text = f"{text}{line}\n" if text or line.strip() else ""
        if sqlite3.complete_statement(text):  # DuckDB's parser knows `;` within quotes and comments.
            return text


def _next_line(_: str) -> str:
    if line := sys.stdin.readline():
        return line.removesuffix("\n")
    raise EOFError


def _run(connection: "Connection", text: str) -> None:
    """Run a command, or the statements in ``text``. Raises UsageError, and the errors of reading the tables."""
    from serving_layer.query_output import fetch

    if text.startswith("."):
        command = require_known("command", text, _COMMANDS)
        if command == ".help":
            say(_HELP)
        elif command == ".tables":
            say_table(["view", "columns"], [(view, ", ".join(columns)) for view, columns in _views(connection).items()])
        else:
            connection.refresh()
            say(f"as of {connection.moment}")
        return
    for statement in connection.split(text):
        result = fetch(connection, statement)
        say_result(result.columns, result.rows, result.numbers)


def _names(connection: "Connection") -> list[str]:
    """The views, and the columns of the metrics. None of them needs to be attached."""
    metrics = [tables.metric for tables in connection.served]
    columns = (name for metric in metrics for name in (*metric.dimensions, *metric.measures))
    return [*connection.views, "hour", *columns, "state"]


def _views(connection: "Connection") -> dict[str, list[str]]:
    """The columns of each view."""
    views = connection.database.execute(
        "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal ORDER BY ALL"
    ).fetchall()
    return {
        view: [name for name, *_ in connection.database.execute(f'DESCRIBE "{view}"').fetchall()] for (view,) in views
    }
