"""``check``: finds mistakes in the declarations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline_core.errors import DeclarationError, KafkaForbidsError
from hourline_core.model.home_folder import expand_home
from hourline_core.model.hours import hour_text

if TYPE_CHECKING:
    from hourline_core.model import Project


def check(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Check all declarations. Spark resolves each expression, Great Expectations looks up each expectation, and each
    class in measures/ and folds/ is tried on generated events. The tables of lookups, the tests, and the files of
    kafka.options are read, too.
    Nothing is computed or written.
    """
    declared = load(project, workspace)
    from batch_layer.audit.expectation_mistakes import find_mistakes
    from hourline_core.compute.check import find_unresolved
    from hourline_core.compute.check_classes import find_slow_classes
    from hourline_core.formats.schema_fields import describe_following_fields, find_unreadable
    from hourline_core.ledger.metrics_without_record import metrics_without_record
    from hourline_core.ledger.raw_records import notes_on_raw_records
    from hourline_core.lookups.refresh import find_unusable
    from hourline_core.model.loaded_tests import find_mistakes_of_tests
    from hourline_core.model.sink_checks import describe_waiting_sinks
    from hourline_core.runtime.kafka import check_files
    from hourline_core.runtime.spark import spark_session, stop_spark

    spark = spark_session(declared, "check", brief=True, runs_tasks=False)
    try:
        mistakes = [*find_unresolved(spark, declared), *find_mistakes(declared), *find_mistakes_of_tests(declared)]
        mistakes += [*find_unreadable(declared), *find_unusable(declared)]
        try:
            check_files(declared)
        except KafkaForbidsError as error:
            mistakes.append(str(error))
        slow = [] if mistakes else [*find_slow_classes(spark, declared)]
    finally:
        stop_spark(spark)
    if mistakes:
        raise DeclarationError("\n".join(mistakes))
    for line in slow:
        note(line)
    for metric, hour in metrics_without_record(declared):
        note(
            f"{declared.where_declared('metric', metric.name, ())}: uses `record`; events up to "
            f"{hour_text(hour)} were archived by an earlier Hourline 0.2, and have only the address; the rest is null"
        )
    for line in notes_on_raw_records(declared):
        note(line)
    for line in describe_missing_folders(declared):
        note(line)
    for line in describe_waiting_sinks(declared.sinks, declared.sources, declared.all_metrics, declared.where_declared):
        note(line)
    for line in describe_following_fields(declared):
        say(line)
    lookups = f"{len(declared.lookups)} lookup(s), " if declared.lookups else ""
    sources, metrics = f"{len(declared.sources)} source(s)", f"{len(declared.all_metrics)} metric(s)"
    sinks = f", {len(declared.sinks)} sink(s)" if declared.sinks else ""
    say(f"{declared.name}: {sources}, {lookups}{metrics}{sinks}, no mistakes")


def describe_missing_folders(declared: "Project") -> Iterator[str]:
    """A line for each folder or Delta table that a source is to read, and that is not there."""
    for source in declared.sources.values():
        if source.place and not (folder := declared.root / expand_home(source.place)).is_dir():
            path = ("files", "folder") if source.files else ("delta", "table")
            where = declared.where_declared("source", source.name, path)
            yield f"{where}: {'.'.join(path)}: there is no folder {folder}; the speed layer waits for it"
