"""The aggregates that a measure can have: one small class for each, and the registry of them.

A new aggregate is a class in a file of its own and a line in ``_CLASSES``. The word that declares it is in
``hourline_core.model.measure_text``, which imports nothing from here.
"""

from collections.abc import Mapping

from hourline_core.aggregates.any_every import AnyEvery
from hourline_core.aggregates.base import TOLERANCE, Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.count import Count
from hourline_core.aggregates.distinct import Distinct
from hourline_core.aggregates.first_last import FirstLast
from hourline_core.aggregates.keyed_fold import KeyedFold
from hourline_core.aggregates.mean import Mean
from hourline_core.aggregates.min_max import MinMax
from hourline_core.aggregates.quantile import Quantile
from hourline_core.aggregates.rate import Rate
from hourline_core.aggregates.ratio import Ratio
from hourline_core.aggregates.sum import Sum
from hourline_core.aggregates.top import Top
from hourline_core.aggregates.user_defined import UserDefined
from hourline_core.aggregates.variance import Variance
from hourline_core.model import Measure, MeasureKind

__all__ = ["TOLERANCE", "Aggregate", "StateColumn", "UnsuitableArgumentError", "aggregate_of"]

_CLASSES: Mapping[MeasureKind, type[Aggregate]] = {
    "count": Count,
    "sum": Sum,
    "min": MinMax,
    "max": MinMax,
    "first": FirstLast,
    "last": FirstLast,
    "mean": Mean,
    "variance": Variance,
    "stddev": Variance,
    "var_pop": Variance,
    "stddev_pop": Variance,
    "quantile": Quantile,
    "distinct": Distinct,
    "top": Top,
    "ratio": Ratio,
    "rate": Rate,
    "any": AnyEvery,
    "every": AnyEvery,
    "user_defined": UserDefined,
    "fold": KeyedFold,
}


def aggregate_of(measure: Measure) -> Aggregate:
    """The aggregate that ``measure`` declares."""
    return _CLASSES[measure.kind](measure)
