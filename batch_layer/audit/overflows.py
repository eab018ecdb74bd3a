"""Says of a measure that adds doubles where its sum overflows.

Beyond the largest double, a sum is infinite. The order of addition decides whether it gets there. So the tiles and the
events say different things, and the hour is blocked.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.audit.built_in_expectations import deviation_of
from batch_layer.audit.findings import Finding
from hourline_core.aggregates import aggregate_of
from hourline_core.model import Metric
from hourline_core.model.hours import parse_hour
from hourline_core.model.value_text import value_text

_GROUPS = 3
"""The maximum number of groups that are named."""


def explain_overflows(metric: Metric, tiles: pa.Table, findings: Iterable[Finding]) -> list[Finding]:
    """``findings`` on results of ``metric``, which say of an infinite deviation of a sum in which groups of the
    ``tiles`` it overflows, and what can be done.
    """
    measures = {deviation_of(name): name for name in metric.measures}
    return [
        replace(one, found=_describe(metric, tiles, measures[one.check.columns[0]], one.hour))
        if one.check.columns and one.check.columns[0] in measures and _is_infinite(one)
        else one
        for one in findings
    ]


def _is_infinite(finding: Finding) -> bool:
    return not finding.success and any("Infinity" in json.loads(row).values() for row in finding.rows)


def _describe(metric: Metric, tiles: pa.Table, name: str, hour: str) -> str:
    of_hour = tiles.filter(pc.equal(tiles["hour"], pa.scalar(parse_hour(hour), tiles["hour"].type)))
    infinite = pa.array([False] * len(of_hour))
    for column in aggregate_of(metric.measures[name]).columns(name):
        if pa.types.is_floating(of_hour[column].type):
            infinite = pc.or_(infinite, pc.fill_null(pc.invert(pc.is_finite(of_hour[column])), False))
    groups = of_hour.filter(infinite).select(list(metric.dimensions)).to_pylist() if metric.dimensions else []
    named = [", ".join(f"{key} = {value_text(value)}" for key, value in group.items()) for group in groups[:_GROUPS]]
    more = f" and in {len(groups) - _GROUPS:,} more groups" if len(groups) > _GROUPS else ""
    where = f"where {', and where '.join(named)}{more}" if named else "over all groups of the hour"
    return (
        f"'{name}' overflows {where}: doubles beyond {sys.float_info.max:.2g} are infinite, so "
        f"`{metric.measures[name]}` depends on the order of its events; leave large values out with a condition, such "
        "as `where abs(x) < 1e290`, or add up smaller numbers, such as `x / 1e9`"
    )
