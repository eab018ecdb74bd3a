"""A test of metrics: given records, and the rows that are expected of metrics."""

from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from hourline_core.errors import UsageError
from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.given_records import Given, GivenRecord, read_given
from hourline_core.model.hours import parse_window_time
from hourline_core.model.names import SourceName
from hourline_core.model.times import Moment

MOST_RECORDS = 200
"""The maximum number of records of a test. Each of them is a place to cut."""


def _bounded(items: object) -> list[Given]:
    given = read_given(items)
    if (records := sum(isinstance(item, GivenRecord) for item in given)) > MOST_RECORDS:
        raise refuse(f"got {records} records, allowed are {MOST_RECORDS}")
    return given


def _rows_by_metric(value: object) -> dict[str, list[dict[str, Any]]]:
    return _rows_by_name(value, "metric, such as `views: [{hour: 2026-03-02T08, …}]`", "`[]` expects none")


def _rows_by_lookup(value: object) -> dict[str, list[dict[str, Any]]]:
    return _rows_by_name(value, "lookup, such as `plane: [{tail: N1, …}]`", "`[]` is a table without rows")


def _rows_by_name(value: object, example: str, of_none: str) -> dict[str, list[dict[str, Any]]]:
    if not isinstance(value, dict) or not value:
        raise refuse(f"got {describe(value if value else None)}, allowed is a mapping of at least one {example}")
    for name, rows in value.items():
        if not isinstance(rows, list):
            raise refuse(f"got {describe(rows)}, allowed is a list of rows; {of_none}", name)
        for place, row in enumerate(rows):
            if not isinstance(row, dict):
                raise refuse(f"got {describe(row)}, allowed is a row, `{{column: value}}`", name, str(place))
    return value


class MetricTest(Declaration):
    """A test of metrics, as declared in `tests/NAME.yaml`. `hourline test` runs it."""

    description: str | None = None
    """A description for people."""

    source: SourceName | None = None
    """The source of the records. If left out, the source of the metrics."""

    arrived: Moment | None = None
    """The time at which the records arrive. If left out, the time of the run."""

    given: Annotated[
        list[Any],
        BeforeValidator(_bounded),
        PlainSerializer(str),
        WithJsonSchema({"type": "array", "items": {"type": ["object", "string"]}, "minItems": 1}),
    ]
    """The records, in the order in which they are read. An event is a mapping, `{name: value}`, which becomes JSON. A
    text is a record as it is, such as one that is no JSON. `{record: {…}, value: …}` gives a record its `key`,
    `partition`, `timestamp` and `headers`. The item `recompute` recomputes the hours that are closed by then, and
    `recompute all` all hours.
    """

    lookups: Annotated[
        dict[str, Any],
        BeforeValidator(_rows_by_lookup),
        WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}}),
    ] = pydantic.Field(default={})
    """By lookup, its rows in the test: `{column: value}`. A column that is left out is null. Other lookups have the
    rows of their tables, unless the table is a source: its rows must be given.
    """

    expect: Annotated[
        dict[str, Any],
        BeforeValidator(_rows_by_metric),
        WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}}),
    ]
    """By metric, all of its rows at the end. A row names the hour (or `window_start`), all dimensions, and the measures
    to compare. With `state`, the state of the hour is compared, too.
    """

    partial: bool = False
    """Whether the metrics may have rows of other hours or windows than those in `expect`."""

    rejected: Annotated[int, pydantic.Field(ge=0)] = 0
    """The number of records that are rejected."""

    @property
    def records(self) -> list[GivenRecord]:
        """The given records, without the recomputes."""
        return [item for item in self.given if isinstance(item, GivenRecord)]

    def rows_of(self, metric: str) -> list[dict[str, Any]]:
        """The expected rows of a metric, with values as YAML has them."""
        rows: list[dict[str, Any]] = self.expect[metric]
        return rows


def find_mistake_of_time(text: object) -> str | None:
    """Why a value of YAML names no time of a row. None: it does."""
    if not isinstance(text, str):
        return f"got {describe(text)}, allowed is a time such as 2026-03-02T08:00Z"
    try:
        parse_window_time(text)
    except UsageError as error:
        return str(error)
    return None
