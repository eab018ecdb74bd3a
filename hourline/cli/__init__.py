"""The command line: one module per command.

Each command imports its engine when it runs. So ``--help`` answers at once, and reading never needs Spark.
"""

import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import hourline
from hourline.cli import (
    accept,
    advise,
    airflow,
    audit,
    backfill,
    changes,
    check,
    down,
    drift,
    expectations,
    explain,
    export,
    followers,
    gaps,
    graph,
    import_,
    init,
    late,
    lookups,
    maintain,
    plan,
    quality,
    query,
    recompute,
    renamed,
    replay,
    reset,
    schema,
    schemas,
    send,
    serve,
    shell,
    show,
    sinks,
    speed,
    sql,
    status,
    test,
    topics,
    up,
    verify,
)
from hourline.cli.faults import end_with
from hourline.cli.help_panels import Panels
from hourline.cli.options import ON_LOADED
from hourline.cli.output import note, say
from hourline.exit_status import EX_SOFTWARE, INTERRUPTED, MISTAKE, UNREAD
from hourline_core.child_environment import home_folder
from hourline_core.errors import UnreadOutputError
from hourline_core.runtime.quirks import exit_at_once
from hourline_core.runtime.standard_streams import native_errors_to, open_standard_streams, run_as_usual

if TYPE_CHECKING:
    from hourline_core.model import Project

_EXTRAS = {
    "pyspark": "engine",
    "confluent_kafka": "engine",
    "authlib": "engine",
    "httpx2": "engine",
    "duckdb": "serving",
    "duckdb_extension_delta": "serving",
    "datasketches": "serving",
    "httpx": "engine",
    "fastapi": "http",
    "uvicorn": "http",
}
"""By package, the extra of Hourline that brings it."""


class _Raised(Exception):  # noqa: N818 (its cause is the error)
    """An error of a command that Typer would end in silence, or with "Aborted!"."""


class _Commands(Panels):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise _Raised from error


app = typer.Typer(
    name="hourline",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Build": (
        init.init,
        check.check,
        test.test,
        show.show,
        graph.graph,
        schema.schema,
        schemas.app,
        advise.app,
        expectations.app,
    ),
    "Run": (up.up, down.down, replay.replay, import_.import_, speed.speed, send.send, airflow.app),
    "Recompute": (
        plan.plan,
        recompute.recompute,
        backfill.backfill,
        quality.quality,
        audit.audit,
        accept.accept,
        late.late,
        drift.drift,
    ),
    "Ask": (query.query, changes.changes, shell.shell, explain.explain, export.export, sql.sql, serve.serve),
    "Operate": (
        status.status,
        topics.app,
        lookups.lookups,
        followers.followers,
        sinks.sinks,
        gaps.gaps,
        reset.reset,
        maintain.maintain,
        verify.verify,
    ),
}
"""The commands by the panel of ``hourline --help`` that lists them."""
for panel, commands in _PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(name=command.__name__.rstrip("_"), rich_help_panel=panel)(command)
app.command(hidden=True)(renamed.publish)


def _say_version(asked: bool) -> None:
    if asked:
        say(f"hourline {hourline.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hourly results now, exact results after the hour."""


def main() -> NoReturn:
    """The command's entry point: run it, and end the process at once."""
    run_as_usual()
    os.environ.setdefault("HOME", home_folder())  # Libraries look for one when they are imported.
    ended: object = 0
    open_standard_streams()
    ON_LOADED.set(_log_native_errors)
    try:
        run()
    except SystemExit as error:
        ended = error.code or 0
    except KeyboardInterrupt:  # while an error was told
        ended = INTERRUPTED
    except BaseException:
        traceback.print_exc()
        ended = EX_SOFTWARE
    exit_at_once(ended if isinstance(ended, int) else MISTAKE)


def _log_native_errors(project: "Project") -> None:
    logs = project.workspace / "logs"
    if logs.is_dir():  # A command that only reads makes no folder.
        native_errors_to(logs / "native.log")


def run() -> None:
    """Run the command line. Whatever a command raises is one sentence on standard error.

    Raises SystemExit with a status of ``hourline.exit_status``.
    """
    try:
        app()
    except SystemExit:
        raise
    except _Raised as passed:
        assert passed.__cause__
        _end(passed.__cause__)
    except BaseException as error:  # A panic of delta-rs is no Exception.
        _end(error)


def _end(error: BaseException) -> NoReturn:
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is not None:
            note(
                f"hourline: this command needs {error.name}, which is not installed; "
                f"`pip install 'hourline[{extra}]'` brings it"
            )
            sys.exit(MISTAKE)
    # The second is what DuckDB makes of Ctrl-C.
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, RuntimeError) and "Query interrupted" in str(error)):
        note("hourline: interrupted")
        sys.exit(INTERRUPTED)
    if isinstance(error, UnreadOutputError):
        sys.exit(UNREAD)
    end_with(error)
