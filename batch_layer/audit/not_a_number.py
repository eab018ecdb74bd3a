"""NaN in a column of an expectation. It fulfils no bound, whichever engine evaluates it.

By themselves, pandas takes NaN for null, and Spark for the largest number.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from batch_layer.audit.findings import Finding

_OF_NUMBERS = {
    "expect_column_max_to_be_between",
    "expect_column_mean_to_be_between",
    "expect_column_median_to_be_between",
    "expect_column_min_to_be_between",
    "expect_column_pair_values_a_to_be_greater_than_b",
    "expect_column_quantile_values_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_value_z_scores_to_be_less_than",
}
"""The expectations of which pandas and Spark say different things where a value is NaN."""

Counts = Mapping[str, Mapping[str, int]]
"""By hour and column, a number of values."""


def count_not_a_number(frame: pd.DataFrame, by: str) -> Counts:
    """The number of NaN in each column of ``frame`` that has some, by the column ``by``."""
    floats = {name: frame[name] for name in frame.columns if pd.api.types.is_float_dtype(frame[name].dtype)}
    of_rows = pd.DataFrame(
        {
            # A null of pandas' own type of doubles is not NaN. In numpy's, it is the same.
            name: np.isnan(values.to_numpy(float, na_value=0.0)) if isinstance(values.dtype, pd.Float64Dtype) else False
            for name, values in floats.items()
        },
        index=frame.index,
    )
    if of_rows.empty:
        return {}
    counts = of_rows.groupby(frame[by]).sum()
    return {str(one): {name: int(counts[name][one]) for name in of_rows.columns} for one in counts.index}


def fail_not_a_number(findings: list[Finding], counts: Counts) -> None:
    """Turn into a failure each finding on numbers some of which are NaN."""
    for place, finding in enumerate(findings):
        check = finding.check
        if check.type not in _OF_NUMBERS or "row_condition" in check.parameters or not finding.applied:
            continue
        found = {name: counts.get(finding.hour, {}).get(name, 0) for name in check.columns}
        words = ", ".join(f"{name} is NaN in {count:,} rows" for name, count in found.items() if count)
        if words and finding.success:
            findings[place] = replace(finding, success=False, found=words, observed=None)
