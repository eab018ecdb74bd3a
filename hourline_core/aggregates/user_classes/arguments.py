"""The arguments of measures whose classes a project defines, as Spark SQL over one event."""

import re

from hourline_core.aggregates.base import UnsuitableArgumentError
from hourline_core.model import Measure
from hourline_core.model.expressions import attempt

_NOT_TAKEN = re.compile(r"(?:^|[<:,])(void|variant|interval|time)\b(?!:)")
"""Types, as a part of Spark's text of a type. A field that has such a name is followed by its type. Delta has no
times of day.
"""


def arguments_of(measure: Measure, types: str) -> list[str]:
    """The arguments: all of them are null for an event that does not count, and none is for one that does.

    ``types`` is the Spark type of a struct of them. Raises UnsuitableArgumentError for a type that no class takes.
    """
    if unknown := _NOT_TAKEN.search(types):
        raise UnsuitableArgumentError(f"{measure} takes no {unknown[1]}; cast it to another type")
    there = " AND ".join(f"({argument}) IS NOT NULL" for argument in measure.arguments)
    # An argument may raise for an event that does not fulfil the condition.
    counts = f"CASE WHEN ({measure.where or 'true'}) THEN {there} END"
    return [attempt(f"CASE WHEN {counts} THEN ({argument}) END") for argument in measure.arguments]
