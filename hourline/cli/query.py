"""``query`` and ``status``: reading. Neither needs Spark or Java."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import AsOf, Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say, say_json, say_table, shortest_path
from hourline_core.errors import UsageError


class ResultFormat(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(query)
    app.command()(status)


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, in DuckDB's SQL; the views are the metrics, and `hours`.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: Annotated[
        ResultFormat, typer.Option("--format", "-f", help="How to print the result.")
    ] = ResultFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write to, instead of standard output.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse an answer that rests on hours that are missing or blocked.")
    ] = False,
    as_of: AsOf = None,
    degraded: Annotated[
        bool, typer.Option("--degraded", help="Where a table is damaged, answer what does not need it, and say so.")
    ] = False,
) -> None:
    """Query the merged results: final where an hour is covered, provisional where it is not."""
    if format is ResultFormat.TABLE and output:
        raise UsageError("a table is for the terminal; for a file, give --format csv, json, jsonl or parquet")
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.output import fetch, write
    from serving_layer.query_scope import in_words

    with connect(declared, strict=strict, as_of=as_of, degraded=degraded) as connection:
        for damage in connection.damage:
            note(f"degraded, as of {connection.token}: {damage}")
        if format is ResultFormat.TABLE:
            result = fetch(connection, sql)
            say_table(result.columns, result.rows, right=result.numbers)
            if sys.stderr.isatty():  # a word for people, which no program is to stumble over
                states = in_words(connection.states(sql))
                note(f"as of {connection.token}{' · ' if states else ''}{states}")
        else:
            write(connection, sql, format.value, output)


def status(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many hours to show of each source.")] = 24,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show each source's progress, lag and rejected records, and the state of its last hours."""
    declared = load(project, workspace)
    from serving_layer.reports.status import project_status

    report = project_status(declared, last)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    say(f"{report.project}: {report.speed}")
    for item in report.changing:
        waits = (
            "until the speed layer starts again"
            if item.missing is None
            else f"until the {item.missing:,} hour(s) it lacks have closed and are recomputed"
        )
        say(f"metric '{item.metric}' has changed; it answers by its older declaration {waits}")
    say_table(
        [
            "source",
            "sequence",
            "accepted",
            "rejected",
            "duplicates",
            "tombstones",
            "late",
            "skipped",
            "lag",
            "clock (UTC)",
        ],
        [
            (
                s.source,
                s.sequence,
                s.accepted,
                s.rejected,
                s.duplicates,
                s.tombstones,
                s.late,
                s.skipped,
                s.lag,
                s.clock,
            )
            for s in report.sources
        ],
        right=["sequence", "accepted", "rejected", "duplicates", "tombstones", "late", "skipped", "lag"],
    )
    if report.hours:
        say("")
        say_table(
            ["hour (UTC)", "source", "state", "events", "late", "closed", "audit"],
            [(h.hour, h.source, h.state, h.events, h.late, h.closed, shortest_path(h.report)) for h in report.hours],
            right=["events", "late"],
        )
