"""``test``: runs the tests of the metrics, without Kafka; or writes one from a real hour."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load, require_known
from hourline.cli.output import note, say, say_table, shortest_path
from hourline.exit_status import MISTAKE
from hourline_core.errors import UsageError
from hourline_core.machine import require_folder_of
from hourline_core.model.hours import parse_hour

if TYPE_CHECKING:
    from hourline.metric_tests.run_tests import OutcomeOfTest
    from hourline_core.model import Project

_SHOWN = 20
"""The maximum number of differences that are shown."""


def test(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TEST", help="The tests to run.", show_default="all")
    ] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write the outcome to this file, as XML.")] = None,
    record: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--record",
            metavar="METRIC HOUR",
            help="Write a test from an hour (UTC) of a metric in the workspace, such as 2013-01-05T14. None is run.",
        ),
    ] = None,
) -> None:
    """Run the tests of the metrics, in tests/. The records of each are read in many ways: cut at each place, in 20
    seeded splits, and as given. Both layers must give the expected rows each time. No Kafka is needed, and the
    workspace stays as it is. The exit status is 1 when a test fails.
    """
    declared = load(project, workspace)
    if junit is not None:
        require_folder_of(junit)
    if record is not None:
        if names or junit:
            raise UsageError("give --record alone: it writes a test, and runs none")
        _record(declared, *record)
        return
    from hourline_core.model.loaded_tests import FOLDER, chosen_tests, load_tests

    tests = list(chosen_tests(load_tests(declared), names or []))
    if not tests:
        raise UsageError(
            f"there is no test in {shortest_path(str(declared.root.absolute() / FOLDER))}: write {FOLDER}/NAME.yaml, "
            "or record one with --record METRIC HOUR"
        )
    note(f"running {len(tests)} test(s); starting Spark")
    from hourline.metric_tests.junit import junit_xml
    from hourline.metric_tests.run_tests import run_tests

    outcomes: list[OutcomeOfTest] = []
    for outcome in run_tests(declared, tests):
        say_outcome(outcome)
        outcomes.append(outcome)
    if junit is not None:
        junit.write_bytes(junit_xml(declared.name, outcomes))
    failed = sum(outcome.failure is not None for outcome in outcomes)
    say(f"{declared.name}: {len(outcomes) - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(MISTAKE)


def say_outcome(outcome: "OutcomeOfTest") -> None:
    """Print what became of a test: one line, or the first difference as a table."""
    if outcome.failure is None:
        say(f"{outcome.test.name}: passed, read in {outcome.ways} ways")
        return
    failure, difference = outcome.failure, outcome.failure.difference
    say(f"{outcome.test.name}: failed, {failure.sentence}")
    if difference:
        say_table(difference.columns, difference.rows[:_SHOWN])
        if (more := len(difference.rows) - _SHOWN) > 0:
            say(f"and {more} more")
        if failure.told:
            say(failure.told)
    say(f"again: hourline test {outcome.test.name}; expected in {outcome.test.place('expect')}")


def _record(declared: "Project", metric: str, hour: str) -> None:
    require_known("metric", metric, list(declared.all_metrics))
    chosen = parse_hour(hour)
    from hourline.metric_tests.record_test import record_test
    from hourline_core.model.loaded_tests import FOLDER
    from serving_layer import connect

    file = declared.root / FOLDER / f"{metric}_{chosen:%Y_%m_%d_%H}.yaml"
    if file.exists():
        raise UsageError(f"{file} is already there and is not overwritten: delete it, or give it another name")
    with connect(declared) as connection:
        text = record_test(connection, metric, chosen)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    say(f"  {file}")
    say(f"Next: hourline test {file.stem}")
