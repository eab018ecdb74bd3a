"""Joins the facts of many metrics, so that an expectation that they share is evaluated once, over the rows of all.

Great Expectations takes its time for each expectation, not for each row.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from great_expectations.core import ExpectationValidationResult

from batch_layer.audit.built_in_expectations import Facts
from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import find_exception
from hourline_core.model.scratch_columns import SCRATCH_PREFIX

OF = f"{SCRATCH_PREFIX}of"
"""The column with the place of the facts that a row is of."""


class UnsharedResultError(Exception):
    """A result over the rows of several facts that does not say which of them fail."""


@dataclass(frozen=True)
class JoinedFacts:
    """Some facts, of which each has the same expectations."""

    frame: pd.DataFrame
    """OF, ``hour``, and the columns of the expectations."""
    checks: list[Mapping[int, Check]]
    """For each expectation, the check of each facts, by their place."""


def join_facts(compared: Sequence[Facts]) -> Iterator[JoinedFacts]:
    """``compared``, joined where they have the same expectation on columns of the same types. Each expectation of them
    is about single rows.
    """
    sharing: dict[str, dict[int, Check]] = {}
    for place, facts in enumerate(compared):
        for check in facts.checks:
            types = [str(facts.frame[name].dtype) for name in check.columns]
            expectation = json.dumps([check.type, check.parameters, types], sort_keys=True, default=str)
            sharing.setdefault(expectation, {})[place] = check
    groups: dict[tuple[int, ...], list[Mapping[int, Check]]] = {}
    for by_place in sharing.values():
        groups.setdefault(tuple(by_place), []).append(by_place)
    for places, checks in groups.items():
        columns = [*dict.fromkeys(["hour", *(name for one in checks for name in one[places[0]].columns)])]
        frames = [compared[place].frame[columns].assign(**{OF: place}) for place in places]
        yield JoinedFacts(pd.concat(frames, ignore_index=True), checks)


def split_result(result: ExpectationValidationResult, places: Sequence[int]) -> dict[int, ExpectationValidationResult]:
    """The result of each facts of a joined ``result``, by their place. Raises UnsharedResultError."""
    failing: dict[int, list[dict[str, Any]]] = {place: [] for place in places}
    for row in result.result.get("unexpected_index_list") or []:
        failing[int(row[OF])].append({name: value for name, value in row.items() if name != OF})
    if find_exception(result) or bool(result.success) == any(failing.values()):
        raise UnsharedResultError
    return {
        place: ExpectationValidationResult(success=not rows, result={"unexpected_index_list": rows})
        for place, rows in failing.items()
    }
