"""A plugin of pytest for `make mutants`: notes of each failure whether the test or the product has said no, or the
broken code just fell over.

    RED_REASONS=<file> pytest -p tests.support.red_reasons ...

Appends a line of JSON for each failure: ``test``, and ``broken``, which is empty for a true red and else says what was
raised, and where.
"""

import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_TESTS = Path(__file__).parents[1]
_MISTAKES = (AttributeError, ImportError, NameError, SyntaxError, TypeError)
"""What code raises that does not do what its author meant: none of them is the product's answer to a broken rule."""


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
    if call.excinfo and (file := os.environ.get("RED_REASONS")):
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"test": node.nodeid, "broken": broken_by(call.excinfo.value)}) + "\n")


def broken_by(error: BaseException) -> str:
    """Why ``error`` shows nothing about a rule; empty if an assertion of a test, or an error of the product's own, is
    all there is to it.
    """
    for one in _leaves(error):
        for behind in _chain(one):
            if isinstance(behind, _MISTAKES) and _in_product(behind):
                return _said(behind)
        if not _is_told(one):
            return _said(one)
    return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group: Hypothesis raises one when it has found several."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, or during: a mistake may hide behind an error of the product's own."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, None if one.__suppress_context__ else one.__context__]
            yield one


def _is_told(error: BaseException) -> bool:
    from hourline_core.errors import HourlineError  # of the copy that is broken

    return isinstance(error, (HourlineError, pytest.fail.Exception)) or (
        isinstance(error, AssertionError) and not _in_product(error)
    )


def _in_product(error: BaseException) -> bool:
    """Whether it was raised by a line of the checkout that is not in its tests; a SyntaxError names the line in its
    text alone.
    """
    file = Path(error.filename) if isinstance(error, SyntaxError) and error.filename else _innermost(error)
    return file is not None and file.is_relative_to(_TESTS.parent) and not file.is_relative_to(_TESTS)


def _innermost(error: BaseException) -> Path | None:
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename) if frames else None


def _said(error: BaseException) -> str:
    where = _innermost(error)
    short = where.relative_to(_TESTS.parent) if where and where.is_relative_to(_TESTS.parent) else where
    return f"{type(error).__name__} in {short}: {error}".splitlines()[0]
