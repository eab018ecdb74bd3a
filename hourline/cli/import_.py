"""``import``: imports history from files, without Kafka, and then recomputes its hours."""

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hourline.cli.backfill_run import run_backfill
from hourline.cli.chosen_hours import note_pending
from hourline.cli.declared_names import refuse_without_topic
from hourline.cli.options import ProjectFolder, Workspace, load, require_known
from hourline.cli.output import note, say
from hourline.cli.progress import progress
from hourline.cli.recompute_report import exit_if_blocked, hours_in_words
from hourline.cli.stop_signals import stop_on_signal
from hourline.exit_status import INTERRUPTED

if TYPE_CHECKING:
    from batch_layer.publish import Recomputed
    from hourline_core.model import Project, Source
    from speed_layer.commit.committer import Finished
    from speed_layer.import_files import HistoryFile


def import_(
    files: Annotated[
        list[str],
        typer.Argument(help="CSV, JSON lines, Parquet, Avro, text or Protobuf, also packed."),
    ],
    source: Annotated[str, typer.Option("--source", "-s", help="The source of the events.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: Annotated[
        Literal["csv", "jsonl", "parquet", "avro", "text", "protobuf"] | None,
        typer.Option(
            help="The format of the files. text, protobuf: records in the source's format.",
            show_default="by their names",
        ),
    ] = None,
    null_text: Annotated[
        str | None, typer.Option(help="A cell that stands for null in CSV, besides the empty one without quotes.")
    ] = None,
    no_backfill: Annotated[
        bool, typer.Option("--no-backfill", help="Do not recompute the hours of the events.")
    ] = False,
) -> None:
    """Import events from files into the archive. The speed layer must be stopped. The hours of the events are
    recomputed afterwards. Each row is archived once, even if the command is repeated.
    """
    declared = load(project, workspace, makes_workspace=True)
    chosen = declared.sources[require_known("source", source, list(declared.sources))]
    refuse_without_topic(chosen, "import the files into an input of it")
    from hourline_core.runtime.lease import lease
    from speed_layer.import_files import find_history

    with lease(declared.workspace, "speed"):
        history = find_history(declared, chosen, files, format, null_text)
        _import(declared, chosen, history)
    done = [] if no_backfill else _backfill(declared, chosen, history)
    note_pending(declared)
    exit_if_blocked(done)


def _import(declared: "Project", source: "Source", files: list["HistoryFile"]) -> None:
    """Raise typer.Exit when it is interrupted."""
    from speed_layer.import_files import import_files
    from speed_layer.spark_session import speed_session

    left = [file for file in files if file.imported < file.rows.total]
    for file in files:
        if file not in left:
            say(f"{file.name}: all of its {file.rows.total:,} rows were imported before")
    if not left:
        return
    total, done = sum(file.rows.total for file in left), sum(file.imported for file in left)
    note(f"importing {total - done:,} rows; starting Spark")
    with speed_session(declared) as spark, stop_on_signal() as stop, progress("import", "rows", total, done) as move:

        def on_finished(one: "Finished") -> None:
            nonlocal done
            done += one.records
            move(done)

        imported = import_files(spark, declared, source, left, stopped=stop.is_set, on_finished=on_finished)
    for one in imported:
        before = f" ({one.file.imported:,} were imported before)" if one.file.imported else ""
        counts = f"{one.accepted:,} accepted, {one.rejected:,} rejected, {one.duplicates:,} duplicates"
        counts += f", {one.not_taken:,} not taken by the source's branch" if one.not_taken else ""
        say(f"imported {one.rows:,} rows of {one.file.name}: {counts}{before}")
    if done < total:
        note(f"interrupted: {total - done:,} rows are left; the same command continues")
        raise typer.Exit(INTERRUPTED)


def _backfill(declared: "Project", source: "Source", files: list["HistoryFile"]) -> "list[Recomputed]":
    from batch_layer.backfill import plan_hours
    from speed_layer.import_files import touched_hours

    planned, still_open = plan_hours(declared, source.name, touched_hours(declared, source, files))
    if still_open:
        note(f"not recomputed, since they have not closed yet: {hours_in_words(still_open)}")
    if planned.left:
        return run_backfill(planned, join(["hourline", "import", "--source", source.name]))
    from batch_layer.plan import plan

    others = plan(declared)
    say(
        f"No hour of these files needs a recompute, but {len({item.hour for item in others}):,} other hour(s) do: "
        "`hourline recompute` computes them"
        if others
        else "No hour needs a recompute."
    )
    return []
