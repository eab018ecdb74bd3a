"""`make mutants` takes long and is run by hand; that each rule which it breaks is still where it says, and what it
takes for red, is shown here.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hourline_core.model.hours
from hourline_core.errors import ConflictError, TableError
from tests.mutants import MUTANTS, ROOT, Mutant, mistake_told, noticed
from tests.support.red_reasons import broken_by


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_each_line_that_a_mutant_changes_is_there_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert [text.count(old) for old, _ in mutant.changes] == [1] * len(mutant.changes)


@pytest.mark.parametrize(
    ("word", "what", "old", "new"),
    [
        (
            "red",
            "tests/unit/model/test_hours.py::",
            "return hour.astimezone(UTC).",
            "return (hour + HOUR).astimezone(UTC).",
        ),
        ("ALIVE", "", "return hour.astimezone(UTC).", "return hour.astimezone(UTC) ."),
        (
            "BROKEN",
            "AttributeError in hourline_core/model/hours.py: ",
            "return hour.astimezone(UTC).",
            "return hour.items().",
        ),
        ("BROKEN", "NameError in hourline_core/model/hours.py: ", "HOUR = HOURLY.size", "HOUR = unheard_of"),
        ("BROKEN", "SyntaxError in ", "HOUR = HOURLY.size", "HOUR = (HOURLY.size"),
        ("BROKEN", "hourline_core/model/hours.py has 0 times", "HOUR = timedelta(hours=2)", ""),
    ],
)
def test_a_mutant_is_red_by_what_a_test_says_and_broken_by_its_own_mistakes(
    word: str, what: str, old: str, new: str, tmp_path: Path
) -> None:
    verdict = noticed(
        Mutant(
            "any",
            "hourline_core/model/hours.py",
            "tests/unit/model/test_hours.py --noconftest -k hours_beside",
            ((old, new),),
        ),
        tmp_path / "copy",
    )
    assert (verdict.word, verdict.what[: len(what)]) == (word, what)


@pytest.mark.parametrize(
    ("code", "told"),
    [("hour_text(5)", "AttributeError: 'int' object "), ("parse_hour('never')", ""), ("hour_text()", "")],
)
@pytest.mark.parametrize("shown", ["", "E   "])
def test_a_mistake_is_seen_in_what_another_process_says(code: str, told: str, shown: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from hourline_core.model.hours import *; {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in done.stderr
    said = mistake_told(
        "".join(f"{shown}{line}\n" for line in done.stderr.splitlines()), "hourline_core/model/hours.py"
    )
    assert said.startswith(told) if told else said == ""


def says_no() -> None:
    raise AssertionError


def raises_conflict() -> None:
    raise ConflictError


def hides_a_mistake() -> None:
    try:
        hourline_core.model.hours.parse_hour(5)  # type: ignore[arg-type]
    except Exception as error:
        raise TableError from error


def groups(*raised: Callable[[], None]) -> Callable[[], None]:
    def group() -> None:
        errors = []
        for one in raised:
            with pytest.raises(Exception) as caught:
                one()
            errors.append(caught.value)
        raise ExceptionGroup("found several", errors)

    return group


@pytest.mark.parametrize(
    ("raised", "broken"),
    [
        (says_no, ""),
        (raises_conflict, ""),
        (lambda: pytest.fail("so"), ""),
        (lambda: hourline_core.model.hours.parse_hour("never") and None, ""),  # UsageError
        (hides_a_mistake, "Error in "),
        (lambda: dict[str, int]()["nothing"], "KeyError in "),
        (groups(says_no, raises_conflict), ""),
        (groups(says_no, hides_a_mistake), "Error in "),
    ],
    ids=[
        "an assertion",
        "an error of the product",
        "a failure",
        "an error of the product that is raised in it",
        "a mistake behind an error of the product",
        "a mistake of the test",
        "a group of refusals",
        "a group with a mistake",
    ],
)
def test_what_counts_as_said_by_a_test_or_by_the_product(raised: Callable[[], None], broken: str) -> None:
    with pytest.raises(BaseException) as caught:
        raised()
    assert (broken in broken_by(caught.value)) if broken else broken_by(caught.value) == ""
