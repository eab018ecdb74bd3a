"""``query``: queries the merged results by SQL. Needs neither Spark nor Java."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import AsOf, AtLeastCounted, ProjectFolder, Wait, Workspace, load, parse_wait
from hourline.cli.output import note, say_result
from hourline.cli.waiting import note_missing, note_waiting
from hourline_core.errors import UsageError


class ResultFormat(StrEnum):
    """The format of a result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


FormatOfResult = Annotated[ResultFormat, typer.Option("--format", "-f", help="The format of the result.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")]


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT in DuckDB's SQL over the metrics and the other views.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: FormatOfResult = ResultFormat.TABLE,
    output: Output = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if the result includes hours that are missing, blocked or incomplete."),
    ] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Note how many sent records the result does not count yet. Asks Kafka.")
    ] = False,
    at_least: AtLeastCounted = None,
    wait: Wait = None,
    as_of: AsOf = None,
    degraded: Annotated[
        bool, typer.Option("--degraded", help="Answer queries that do not need a damaged table, with a note.")
    ] = False,
) -> None:
    """Query the merged results with SQL. Recomputed hours are final, and the others are provisional."""
    if format is ResultFormat.TABLE and output:
        raise UsageError("a table is for the terminal; for a file, give --format csv, json, jsonl or parquet")
    if waiting and as_of:
        raise UsageError("--waiting is about the newest result: leave out --as-of")
    declared = load(project, workspace)
    asked, seconds = parse_wait(at_least, wait)
    from serving_layer import connect
    from serving_layer.query_output import fetch, write
    from serving_layer.query_scope import summarize_states

    with connect(declared, strict=strict, as_of=as_of, degraded=degraded) as connection:
        if asked is not None:
            connection.wait_until_counted(asked, seconds, sql)
        for damage in connection.damage:
            note(f"degraded, as of {connection.token}: {damage}")
        if format is ResultFormat.TABLE:
            result = fetch(connection, sql)
            say_result(result.columns, result.rows, result.numbers)
            if not waiting and not result.rows and not connection.is_past:
                note_waiting(connection, sql, is_asked=False)
            for pending in connection.pending_in(sql):
                note(pending.in_words())
        else:
            write(connection, sql, format.value, output)
        if waiting:
            note_waiting(connection, sql, is_asked=True)
        states = connection.states(sql)
        if not connection.is_past:
            note_missing(connection.missing_among(states))
        if sys.stderr.isatty():  # A program must not find it in its input.
            columns = connection.sql(sql).columns
            errors = [f"{name} {error}" for name, error in connection.errors_of(sql, columns).items()]
            note(" · ".join(filter(None, [f"as of {connection.token}", summarize_states(states), *errors])))
