"""Joins the facts of many metrics, so that an expectation that they share is evaluated once, over the rows of all.

Great Expectations takes its time for each expectation and each frame, not for each row.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from great_expectations.core import ExpectationValidationResult

from batch_layer.audit.built_in_expectations import Facts
from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import find_exception
from hourline_core.model.expectation import rename_columns
from hourline_core.model.scratch_columns import SCRATCH_PREFIX

OF = f"{SCRATCH_PREFIX}of"
"""The column with the place of the facts that a row is of."""


class UnsharedResultError(Exception):
    """A result over the rows of several facts that does not say which of them fail."""


@dataclass(frozen=True)
class JoinedFacts:
    """Some facts, of which each has the same expectations, but for the names of columns."""

    frame: pd.DataFrame
    """OF, and columns that stand for those of the expectations."""
    checks: list[Check]
    """The expectations on these columns."""
    own: list[Mapping[int, Check]]
    """For each of them, the check of each facts, by their place."""


def join_facts(compared: Sequence[Facts]) -> Iterator[JoinedFacts]:
    """``compared``, joined where they have the same expectation on columns of the same types. Each expectation of them
    is about single rows.
    """
    sharing: dict[tuple[str, int], dict[int, Check]] = {}
    for place, facts in enumerate(compared):
        met: Counter[str] = Counter()
        for check in facts.checks:
            types = [str(facts.frame[name].dtype) for name in check.columns]
            unnamed = rename_columns(check.parameters, [""] * len(types))
            expectation = json.dumps([check.type, unnamed, types], sort_keys=True, default=str)
            sharing.setdefault((expectation, met[expectation]), {})[place] = check
            met[expectation] += 1
    groups: dict[tuple[int, ...], list[Mapping[int, Check]]] = {}
    for by_place in sharing.values():
        groups.setdefault(tuple(by_place), []).append(by_place)
    for places, own in groups.items():
        names = [[f"{number}.{of}" for of in range(len(one[places[0]].columns))] for number, one in enumerate(own)]
        checks = [
            replace(one[places[0]], parameters=rename_columns(one[places[0]].parameters, of_check))
            for one, of_check in zip(own, names, strict=True)
        ]
        frames = [_take_columns(compared[place].frame, place, own, names) for place in places]
        yield JoinedFacts(pd.concat(frames, ignore_index=True), checks, own)


def _take_columns(
    frame: pd.DataFrame, place: int, own: Sequence[Mapping[int, Check]], names: Sequence[Sequence[str]]
) -> pd.DataFrame:
    """The columns of the checks of one facts, by their ``names``, and OF."""
    columns = {
        name: frame[column]
        for one, of_check in zip(own, names, strict=True)
        for name, column in zip(of_check, one[place].columns, strict=True)
    }
    return pd.DataFrame({OF: place, **columns}, index=frame.index)


def find_failing(result: ExpectationValidationResult) -> set[int]:
    """The places of the facts that fail a joined ``result``. Raises UnsharedResultError if it does not tell."""
    failing = {int(row[OF]) for row in result.result.get("unexpected_index_list") or []}
    if find_exception(result) or bool(result.success) == bool(failing):
        raise UnsharedResultError
    return failing
