"""``export``: writes a snapshot of the results to files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from hourline.cli.options import AtLeastCounted, ProjectFolder, Wait, Workspace, load, parse_wait
from hourline.cli.output import say
from hourline.cli.progress import progress
from hourline_core.errors import UsageError


class ExportFormat(StrEnum):
    """One file, or a folder of them."""

    DUCKDB = "duckdb"
    PARQUET = "parquet"


def export(
    file: Annotated[str, typer.Argument(help="The target: FILE.duckdb, or FOLDER/ for Parquet files.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: Annotated[
        ExportFormat | None,
        typer.Option("--format", "-f", help="The format, if the name does not say it.", show_default=False),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Also write the events and rejected records of each source.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing export.")] = False,
    at_least: AtLeastCounted = None,
    wait: Wait = None,
) -> None:
    """Write the results to a DuckDB database or Parquet files. They can be read without Hourline."""
    target = Path(file)
    form: Literal["duckdb", "parquet"] = "duckdb" if (format or _format_of(file)) is ExportFormat.DUCKDB else "parquet"
    declared = load(project, workspace)
    asked, seconds = parse_wait(at_least, wait)
    from serving_layer import connect
    from serving_layer.export import check_target, exported_tables
    from serving_layer.export import export as write

    check_target(target, form, overwrite)
    with connect(declared, at_least=asked, wait=seconds) as connection:
        total = len(exported_tables(connection, events))
        with progress("export", "tables", total) as move:
            write(connection, target, form, events, move)
    say(f"exported {total} tables to {target}")


def _format_of(name: str) -> ExportFormat:
    """The kind of export by its name: ``x.duckdb``, or a folder (an existing one, or ``x/``). Raises UsageError."""
    if name.endswith("/") or Path(name).is_dir():
        return ExportFormat.PARQUET
    if name.endswith(".duckdb"):
        return ExportFormat.DUCKDB
    raise UsageError(
        f"the name '{name}' does not tell the format; want FILE.duckdb or FOLDER/, or give --format duckdb or parquet"
    )
