"""``query``: queries the merged results by SQL. Needs neither Spark nor Java."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import AsOf, ProjectFolder, Workspace, load
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
    at_least: Annotated[
        list[str] | None,
        typer.Option(
            "--at-least",
            metavar="TOPIC:PARTITION=OFFSET|now",
            help="Wait until the record at this offset is counted, or all that Kafka holds now. May be repeated.",
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="SECONDS", help="With --at-least: how long to wait.", show_default="30"),
    ] = None,
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
    if wait is not None and not at_least:
        raise UsageError("--wait says how long --at-least waits: give that, too, or leave out --wait")
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.at_least.form import WAIT_SECONDS, parse_at_least
    from serving_layer.query_output import fetch, write
    from serving_layer.query_scope import summarize_states

    asked = parse_at_least(at_least or [])
    with connect(declared, strict=strict, as_of=as_of, degraded=degraded) as connection:
        if asked:
            connection.wait_until_counted(asked, WAIT_SECONDS if wait is None else wait, sql)
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
