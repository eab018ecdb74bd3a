"""The command line. Each command imports what it needs when it runs, so that ``--help`` answers at once and reading
never needs Spark.
"""

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import typer

from hourline.cli import (
    airflow,
    backfill,
    changes,
    declare,
    explain,
    export,
    import_files,
    layers,
    maintain,
    quality,
    query,
    reset,
    script,
    serve,
    shell,
    stack,
)
from hourline_core.errors import HourlineError, UsageError

TEMPORARY = 75
"""The exit status of a failure that trying again may mend: EX_TEMPFAIL of sysexits.h."""

BUG = 70
"""The exit status of what nobody has foreseen, shown with its stack trace: EX_SOFTWARE of sysexits.h."""

_EXTRAS = {
    "pyspark": "engine",
    "confluent_kafka": "engine",
    "duckdb": "serving",
    "duckdb_extension_delta": "serving",
    "datasketches": "serving",
    "httpx": "airflow",
    "fastapi": "http",
    "uvicorn": "http",
}

app = typer.Typer(
    name="hourline",
    help="Hourly results now, exact results after the hour.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (
    declare,
    stack,
    airflow,
    layers,
    backfill,
    import_files,
    maintain,
    reset,
    quality,
    query,
    explain,
    shell,
    script,
    export,
    changes,
    serve,
):
    commands.register(app)


def main() -> NoReturn:
    """The command's entry: run it, and end the process without taking it apart.

    When Python ends as usual, a thread of a native library that is just calling Python (pyarrow's do, as they read
    Delta's files) makes it abort with status -6, after all was done. Seen once, in a recompute on a busy machine.
    """
    status: object = 0
    try:
        run()
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
        status = BUG
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # who read the output has seen enough (`| head`)
            stream.flush()
    os._exit(status if isinstance(status, int) else 1)


def run() -> None:
    """Run the command line; a user's mistake is one message on standard error, and status 1 (2: a wrong argument; 75:
    try again).
    """
    try:
        app()
    except HourlineError as error:
        sys.stderr.write(f"hourline: {error}\n")
        sys.exit(2 if isinstance(error, UsageError) else TEMPORARY if error.retryable else 1)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        sys.stderr.write(
            f"hourline: this command needs {error.name}, which is not installed; `pip install 'hourline[{extra}]'` brings it\n"
        )
        sys.exit(1)
    except RuntimeError as error:
        if "Query interrupted" not in str(error):  # what DuckDB makes of Ctrl-C
            raise
        sys.stderr.write("hourline: interrupted\n")
        sys.exit(130)
    except KeyboardInterrupt:
        sys.stderr.write("hourline: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
