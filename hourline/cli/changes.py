"""``changes``: how the results differ from those of an earlier time, and why. Needs neither Spark nor Java."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import json_text, note, say_json, say_result
from hourline.cli.query import FormatOfResult, Output, ResultFormat
from hourline_core.errors import UsageError, did_you_mean
from hourline_core.machine import require_folder_of

if TYPE_CHECKING:
    from serving_layer.connection import Connection

_MOST_ROWS = 200
_SHOWN = """metric, window_start, window_end, array_to_string(list_transform(map_entries(dimensions),
    lambda one: one.key || '=' || coalesce(one.value, 'null')), ', ') AS dimensions, change, measure, before, after,
    array_to_string(causes, ', ') AS causes"""


def changes(
    since: Annotated[
        str,
        typer.Option("--since", metavar="TOKEN|TIME", help="The earlier result: its token, or a time (UTC)."),
    ],
    metrics: Annotated[list[str] | None, typer.Argument(metavar="METRIC", help="Only these metrics.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOKEN|TIME", help="The later result.", show_default="the newest"),
    ] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: FormatOfResult = ResultFormat.TABLE,
    output: Output = None,
) -> None:
    """Show how the results differ from earlier ones, and why."""
    if format is ResultFormat.TABLE and output:
        raise UsageError("a table is for the terminal; for a file, give --format csv, json, jsonl or parquet")
    declared = load(project, workspace)
    for name in metrics or []:
        if name not in declared.all_metrics:
            raise UsageError(f"there is no metric '{name}'{did_you_mean(name, declared.all_metrics)}")
    from serving_layer import connect
    from serving_layer.query_output import fetch, write

    rows = "FROM changes"
    with connect(declared, as_of=to) as connection, connect(declared, as_of=since) as before:
        connection.compare_with(before, metrics or declared.all_metrics)
        if format is ResultFormat.TABLE:
            shown = fetch(connection, f"SELECT {_SHOWN} {rows} LIMIT {_MOST_ROWS}")
            if shown.rows:
                say_result(shown.columns, shown.rows, shown.numbers)
            note(_summary(connection, rows, before.token))
        elif format is ResultFormat.JSON:
            changed = {"since": before.token, "token": connection.token, "changes": _as_objects(connection, rows)}
            if output:
                require_folder_of(output)
                output.write_text(f"{json_text(changed)}\n", encoding="utf-8")
            else:
                say_json(changed)
        else:
            write(connection, rows, format.value, output)
        # Also a program needs it, for the next time.
        note(f"as of {connection.token}")


def _as_objects(connection: "Connection", rows: str) -> list[dict[str, Any]]:
    found = connection.sql(rows).to_arrow_table().to_pylist()
    return [{**one, "dimensions": None if one["dimensions"] is None else dict(one["dimensions"])} for one in found]


def _summary(connection: "Connection", rows: str, since: str) -> str:
    counts = Counter(dict(connection.sql(f"SELECT metric, count(*) {rows} GROUP BY metric ORDER BY metric").fetchall()))
    if not counts:
        return f"nothing has changed since {since}"
    total = counts.total()
    more = f"; the first {_MOST_ROWS} are shown, --format csv gives all" if total > _MOST_ROWS else ""
    return f"{total:,} change(s): {', '.join(f'{name} {count:,}' for name, count in counts.items())}{more}"
