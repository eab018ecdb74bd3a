"""Warns of groups that have no value because they have more events than their keyed folds keep."""

from collections.abc import Sequence
from datetime import datetime

import duckdb
import pyarrow as pa

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.facts import as_frame
from batch_layer.audit.validator import Validation, Validator
from hourline_core.aggregates import StateColumn
from hourline_core.aggregates.keyed_fold import KeyedFold
from hourline_core.model import Metric
from hourline_core.model.hours import hour_text
from hourline_core.sql.literals import identifier


def validate_folds(
    validator: Validator,
    connection: duckdb.DuckDBPyConnection,
    metric: Metric,
    hours: Sequence[datetime],
    tiles: pa.Table,
) -> Validation:
    """A finding for each keyed fold of ``metric`` in each of ``hours`` (UTC). It names groups of ``tiles`` that have
    too many events in an hour for a value.
    """
    keys = ["hour", *map(identifier, metric.dimensions)]
    merged, selected, checks = list(keys), list(keys), []
    for name, measure in metric.measures.items():
        if measure.kind == "fold":
            fold = KeyedFold(measure)
            most = fold.loaded.most
            events, n = map(identifier, fold.columns(name))
            merges = fold.merges([StateColumn(events, ""), StateColumn(n, "BIGINT")])
            merged += [f"{sql} AS {column}" for sql, column in zip(merges, (events, n), strict=True)]
            column = f"events of {name} beyond {most:,}"
            # Only these groups are folded.
            beyond = fold.beyond([events, n])
            selected.append(f"CASE WHEN {n} > {most} THEN {beyond} ELSE 0 END AS {identifier(column)}")
            bounds = {"column": column, "min_value": 0, "max_value": 0}
            checks.append(Check("expect_column_values_to_be_between", bounds, "warn"))
    if not checks:
        return Validation()
    connection.register("_audited", tiles)
    groups = f"SELECT {', '.join(merged)} FROM _audited GROUP BY {', '.join(keys)}"
    results = connection.execute(f"SELECT {', '.join(selected)} FROM ({groups}) ORDER BY hour").to_arrow_table()
    frame, _ = as_frame(results, metric.dimensions, ["hour"])
    return validator.evaluate_results(frame, checks, list(map(hour_text, hours)), ["hour", *metric.dimensions])
