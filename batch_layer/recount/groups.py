"""Groups the events of an hour by the dimensions of a metric, and folds each measure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from batch_layer.recount.class_folds import KeyedFoldFold, UserDefinedFold, fails_alone
from batch_layer.recount.equality import key_of
from batch_layer.recount.folds import AnyEveryFold, CountFold, DistinctFold, FirstLastFold, Fold, MinMaxFold, TopFold
from batch_layer.recount.number_folds import QuantileFold, SumFold, VarianceFold
from batch_layer.recount.read_rows import Row
from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.model import Metric

_FOLDS: Mapping[str, type[Fold]] = {
    "count": CountFold,
    "sum": SumFold,
    "mean": SumFold,
    "min": MinMaxFold,
    "max": MinMaxFold,
    "first": FirstLastFold,
    "last": FirstLastFold,
    "variance": VarianceFold,
    "stddev": VarianceFold,
    "var_pop": VarianceFold,
    "stddev_pop": VarianceFold,
    "quantile": QuantileFold,
    "distinct": DistinctFold,
    "top": TopFold,
    "any": AnyEveryFold,
    "every": AnyEveryFold,
    "user_defined": UserDefinedFold,
    "fold": KeyedFoldFold,
}
"""By kind. Those that are left are quotients of others."""


@dataclass(frozen=True)
class Group:
    """The events of one hour with the same dimensions."""

    dimensions: tuple[Any, ...]
    folds: Mapping[str, Fold]
    """By measure."""


def group_rows(metric: Metric, counted: Iterable[Row]) -> dict[Any, Group]:
    """By the key of its dimensions, each group of the events that the metric counts, of those that count at all."""
    classes = {name: one.loaded for name, one in user_defined_of(metric).items()}
    groups: dict[Any, Group] = {}
    for row in counted:
        if not row.in_metric or any(fails_alone(loaded, row.arguments[name]) for name, loaded in classes.items()):
            continue
        key = key_of(row.dimensions)
        if key not in groups:
            groups[key] = Group(row.dimensions, _new_folds(metric))
        for name, fold in groups[key].folds.items():
            fold.add(row, row.arguments[name])
    return groups


def _new_folds(metric: Metric) -> dict[str, Fold]:
    return {name: _FOLDS[measure.kind](measure) for name, measure in metric.measures.items() if not measure.operands}
