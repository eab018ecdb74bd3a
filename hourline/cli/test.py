"""``test``: runs the tests of the metrics."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import ProjectFolder, load
from hourline.cli.output import note, say, say_table
from hourline.exit_status import MISTAKE

if TYPE_CHECKING:
    from hourline.metric_tests.run_tests import TestOutcome


def test(
    names: Annotated[list[str] | None, typer.Argument(help="The tests to run. If left out, all.")] = None,
    project: ProjectFolder = Path(),
) -> None:
    """Run the tests in tests/."""
    declared = load(project, None)
    from hourline_core.model.loaded_tests import chosen_tests, load_tests

    tests = list(chosen_tests(load_tests(declared), names or []))
    if not tests:
        say("no tests")
        return
    note(f"running {len(tests)} tests; starting Spark")
    from hourline.metric_tests.run_tests import run_tests

    failed = 0
    for outcome in run_tests(declared, tests):
        _say(outcome)
        failed += outcome.failure is not None
    if failed:
        raise typer.Exit(MISTAKE)


def _say(outcome: "TestOutcome") -> None:
    state = "failed" if outcome.failure else "ok"
    say(f"{outcome.test.name}: {state}, {outcome.cases} ways, {outcome.seconds:.1f} s")
    if failure := outcome.failure:
        say(failure.case)
        if failure.found:
            say(failure.found)
        if failure.difference:
            say_table(failure.difference.columns, failure.difference.rows, failure.difference.metric)
