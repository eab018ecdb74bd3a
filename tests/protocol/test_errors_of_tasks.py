"""What ends the work of a task reaches the user as one sentence, whatever its error is."""

import errno
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from hourline import load_project
from hourline_core.compute.tasks import tell, told_by
from hourline_core.errors import HourlineError, ResourceError, SetupError
from hourline_core.faults import explain_fault
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.machine import Surroundings
from hourline_core.storage.new_files import NewFileWriter
from speed_layer.intake import tasks
from speed_layer.intake.part import Assignment
from tests.protocol.test_parts import BASE, FILES, ROWS, Made, plan_of, rows_of
from tests.support.project_files import write_project


def raised_from(error: Exception, cause: Exception) -> Exception:
    """``error``, as if it were raised because of ``cause``."""
    error.__cause__ = cause
    return error


def raised_while(error: Exception, handled: Exception) -> Exception:
    """``error``, as if it were raised while the other one was handled."""
    error.__context__ = handled
    return error


WHAT, THEN = "the stream of source 'visits' stopped", "nothing is lost"


class OfTwoArgumentsError(Exception):
    """Can be pickled, and not unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


@pytest.mark.parametrize(
    ("raised", "kind", "sentence"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            ResourceError,
            "the disk of FOLDER is full; make room there",
        ),
        (MemoryError(), ResourceError, "the memory of this machine is used up; end other processes, or lower "),
        (
            raised_from(RuntimeError("writing failed"), raised_from(ValueError("no"), OSError(errno.ENOSPC, "full"))),
            ResourceError,
            "the disk of FOLDER is full; make room there",
        ),
        (
            raised_while(RuntimeError("writing failed"), OSError(errno.ENOSPC, "full")),
            ResourceError,
            "the disk of FOLDER is full; make room there",
        ),
        (SetupError("the package 'x' is missing"), SetupError, "the package 'x' is missing"),
    ],
)
def test_what_ends_a_task_is_told_in_one_sentence(
    raised: Exception, kind: type[HourlineError], sentence: str, tmp_path: Path
) -> None:
    told = explain_fault(failure_of(raised, tmp_path), Surroundings([tmp_path]), what=WHAT, then=THEN)
    assert type(told) is kind
    assert sentence.replace("FOLDER", str(tmp_path)) in str(told)
    assert "\n" not in str(told)


def test_an_error_that_cannot_cross_is_left_to_spark_with_its_own_words(tmp_path: Path) -> None:
    class OfThisFunctionError(Exception):
        """Cannot be pickled."""

    for raised in (OfTwoArgumentsError("its own", "words"), OfThisFunctionError("its own words")):
        with pytest.raises(type(raised), match="its own words"):
            failure_of(raised, tmp_path)


def test_the_causes_of_an_error_cross_up_to_the_first_that_cannot(tmp_path: Path) -> None:
    raised = raised_from(KeyError("a"), raised_from(ValueError("b"), OfTwoArgumentsError("its own", "words")))
    error = failure_of(raised, tmp_path)
    assert repr(error) == "KeyError('a')"
    assert repr(error.__cause__) == "ValueError('b')"
    assert isinstance(error.__cause__, ValueError) and error.__cause__.__cause__ is None


def failure_of(raised: Exception, folder: Path) -> Exception:
    """What the driver gets if writing raises this in a task."""
    root = folder / type(raised).__name__
    (root / "project").mkdir(parents=True)
    plan = plan_of(load_project(write_project(root / "project", FILES)), root)
    batches = pa.Table.from_pylist(rows_of(0, [[Made(0, 1)]]), ROWS).to_batches()

    work = partial(tasks._work, plan, Assignment(1, {"visits": "id"}, SourceClock(), BASE))
    with patch.object(NewFileWriter, "write", side_effect=raised):
        told = pa.Table.from_batches(tell(work, batches))
    try:
        told_by(told)
    except Exception as error:
        return error
    raise AssertionError("no error")
