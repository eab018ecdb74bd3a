"""Warns of the events that a class of a metric fails for, and of the groups that have no value because it fails.

These are warnings: the hour is published with what could be counted. If it were blocked, a single record would withhold
all other measures of the hour from readers, who would go on to see provisional values, which lack the same event.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from batch_layer.audit.built_in_expectations import Facts
from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.facts import as_frame
from batch_layer.audit.findings import Finding
from batch_layer.audit.validator import Validation, Validator
from batch_layer.hour_totals import HourTotals
from hourline_core.aggregates import StateColumn
from hourline_core.aggregates.keyed_fold import KeyedFold
from hourline_core.aggregates.user_defined import UserDefined, user_defined_of
from hourline_core.model import Metric
from hourline_core.model.hours import hour_text
from hourline_core.sql.literals import identifier
from hourline_core.sql.types import column_types

_IN_QUARANTINE = "events in quarantine"


def validate_quarantine(
    validator: Validator, metric: Metric, hours: Sequence[datetime], totals: HourTotals
) -> Validation:
    """A finding on the number of events in quarantine of each of ``hours`` (UTC). It names some of them, with what the
    class raised.
    """
    if not user_defined_of(metric):
        return Validation()
    texts = [hour_text(hour) for hour in hours]
    counts = [totals.quarantined.get(hour, 0) for hour in hours]
    bounds = {"column": _IN_QUARANTINE, "min_value": 0, "max_value": 0}
    check = Check("expect_column_values_to_be_between", bounds, "warn")
    found = validator.evaluate_facts(Facts(pd.DataFrame({"hour": texts, _IN_QUARANTINE: counts}), [check])).findings
    failures = {hour_text(hour): rows for hour, rows in totals.failures.items()}
    numbers = dict(zip(texts, counts, strict=True))
    return Validation([_tell(one, numbers[one.hour], failures.get(one.hour, [])) for one in found])


def validate_values(
    validator: Validator,
    connection: duckdb.DuckDBPyConnection,
    metric: Metric,
    hours: Sequence[datetime],
    tiles: pa.Table,
) -> Validation:
    """A finding for each class of ``metric`` in each of ``hours`` (UTC). It names the groups of ``tiles`` for which the
    class gives no value, and what it raised.
    """
    own = dict(_own_measures(metric))
    if not own:
        return Validation()
    connection.register("_audited", tiles)
    types = column_types(connection, "_audited")
    keys = ["hour", *map(identifier, metric.dimensions)]
    merged, selected, checks = list(keys), list(keys), []
    for name, one in own.items():
        columns = one.columns(name)
        states = [StateColumn(identifier(column), types[column]) for column in columns]
        merges = zip(one.merges(states), states, strict=True)
        merged += [f"{sql} AS {state.sql}" for sql, state in merges]
        told = f"failure of {name}"
        selected.append(f"{one.failure([state.sql for state in states])} AS {identifier(told)}")
        checks.append(Check("expect_column_values_to_be_null", {"column": told}, "warn"))
    groups = f"SELECT {', '.join(merged)} FROM _audited GROUP BY {', '.join(keys)}"
    results = connection.execute(f"SELECT {', '.join(selected)} FROM ({groups}) ORDER BY hour").to_arrow_table()
    frame, _ = as_frame(results, metric.dimensions, ["hour"])
    return validator.evaluate_results(frame, checks, list(map(hour_text, hours)), ["hour", *metric.dimensions])


def _own_measures(metric: Metric) -> Iterator[tuple[str, UserDefined | KeyedFold]]:
    yield from user_defined_of(metric).items()
    yield from ((name, KeyedFold(of)) for name, of in metric.stored_measures.items() if of.kind == "fold")


def _tell(finding: Finding, number: int, failures: Sequence[Mapping[str, Any]]) -> Finding:
    """The finding in the words of people: ``number`` events, of which ``failures`` are some."""
    if not number:
        return finding
    events = "1 event is" if number == 1 else f"{number:,} events are"
    first = [
        f"{one['measure']} failed at {one['topic']} partition {one['partition']} offset {one['offset']} "
        f"({one['message']})"
        for one in failures[:1]
    ]
    words = "; ".join([f"{events} in quarantine and not counted", *first])
    rows = [json.dumps(dict(one), ensure_ascii=False) for one in failures]
    return replace(finding, found=words, unexpected=number, rows=rows)
