"""Conditions on the facts of an hour: the ``when`` of an expectation."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.errors import did_you_mean
from hourline_core.model.base import describe, refuse

FACTS = ("rows", "hour_of_day")
"""What a condition may compare: the number of the hour's rows, and the hour of the day (UTC, 0 to 23)."""

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "!=": operator.ne,
}
_COMPARISON = re.compile(r"(\w+)\s*(>=|<=|!=|>|<|=)\s*(\d+)", re.ASCII)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)


def holds(condition: str, facts: Mapping[str, int]) -> bool:
    """Whether ``condition`` holds for an hour with these ``facts``, by the names of FACTS."""
    return all(_COMPARE[sign](facts[fact], number) for fact, sign, number in _comparisons(condition))


def _comparisons(text: str) -> list[tuple[str, str, int]]:
    comparisons = []
    for part in _AND.split(text.strip()):
        match = _COMPARISON.fullmatch(part)
        if match is None:
            raise refuse(
                f"got {describe(text)}, allowed are comparisons of {' or '.join(FACTS)} with a whole number by "
                f'{", ".join(_COMPARE)}, joined by `and`, such as "rows >= 20"'
            )
        if match[1] not in FACTS:
            raise refuse(f"got {describe(text)}: an hour has no '{match[1]}'{did_you_mean(match[1], FACTS)}")
        comparisons.append((match[1], match[2], int(match[3])))
    return comparisons


def _condition(text: str) -> str:
    comparisons = _comparisons(text)
    near = {number + step for _, _, number in comparisons for step in (-1, 0, 1)}
    values = {"rows": {0, *(number for number in near if number > 0)}, "hour_of_day": set(range(24))}
    for fact, allowed in values.items():
        of_fact = [(sign, number) for name, sign, number in comparisons if name == fact]
        if not any(all(_COMPARE[sign](value, number) for sign, number in of_fact) for value in allowed):
            least = "from 0 to 23 (UTC)" if fact == "hour_of_day" else "0 or more"
            raise refuse(f"got {describe(text)}, which no hour fulfils: {fact} is {least}")
    return text.strip()


Condition = Annotated[str, AfterValidator(_condition)]
"""A condition on the facts of an hour, such as ``rows >= 20 and hour_of_day < 6``, stripped."""
