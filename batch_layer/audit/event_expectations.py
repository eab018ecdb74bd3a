"""Evaluates the declared expectations of a source on the events of some hours: in Spark, where the events are."""

from collections.abc import Sequence
from datetime import datetime

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.audit.declared_expectations import build_checks
from batch_layer.audit.validator import Validation, Validator
from hourline_core.model import Source
from hourline_core.model.hours import hour_text
from hourline_core.model.scratch_columns import COUNTS, HOUR, OFFSET, PARTITION, PLACE, TOPIC, visible_name


def validate_events(
    validator: Validator, source: Source, marked: DataFrame | None, hours: Sequence[datetime]
) -> Validation:
    """Evaluate the expectations of ``source`` on the events of ``hours`` that count. ``marked`` are the archived ones,
    as ``ArchivedEvents.mark_counted`` gives them. None: there are none. The caller persists them.
    """
    texts = [hour_text(hour) for hour in hours]
    return (
        _validate_nothing(validator, source, texts)
        if marked is None
        else _validate_found(validator, source, marked, texts)
    )


def _validate_nothing(validator: Validator, source: Source, hours: list[str]) -> Validation:
    """Those on a column have nothing to evaluate."""
    columns = [*dict.fromkeys(["hour", "event_time", *source.event_fields, *source.derived])]
    nothing = pd.DataFrame(columns=columns, dtype=object)
    return validator.evaluate_results(nothing, build_checks(source.expectations, of_events=True), hours, ["hour"])


def _validate_found(validator: Validator, source: Source, marked: DataFrame, hours: list[str]) -> Validation:
    checks = build_checks(source.expectations, dict(marked.dtypes), of_events=True)
    address = (HOUR, TOPIC, PARTITION, OFFSET, *((PLACE,) if source.explode else ()))
    keys = {visible_name(column, source.field_names): column for column in address}
    hour = next(iter(keys))
    columns = sorted({name for check in checks for name in check.columns} & {*marked.columns} - {hour})
    texts = {key: F.col(column) for key, column in keys.items()}
    texts[hour] = F.date_format(HOUR, "yyyy-MM-dd'T'HH:mm'Z'")
    counting = marked.where(COUNTS).withColumns(texts)
    known = {one: {"": 0, **dict.fromkeys(columns, 0)} for one in hours}
    doubles = [name for name, of in marked.dtypes if name in columns and of in ("float", "double")]
    filled = [F.count(F.col(f"`{name}`")) for name in columns]
    not_a_number = [F.count_if(F.isnan(F.col(f"`{name}`"))) for name in doubles]
    odd: dict[str, dict[str, int]] = {}
    for one, events, *counts in counting.groupBy(hour).agg(F.count("*"), *filled, *not_a_number).collect():
        known[one] = {"": events, **dict(zip(columns, counts, strict=False))}
        odd[one] = dict(zip(doubles, counts[len(columns) :], strict=True))
    return validator.evaluate_events(counting, checks, known, odd, list(keys))
