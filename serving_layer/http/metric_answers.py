"""The answers about metrics, as JSON: the list of them, their rows, and one cell."""

from datetime import datetime
from typing import Any

from serving_layer.described import Described
from serving_layer.http.waiting import WaitingOf


class Column(Described):
    """A column."""

    name: str
    """The name."""
    type: str
    """The type, as DuckDB names it."""
    description: str | None = None
    """For a measure: how it is declared."""
    error: str | None = None
    """How near its values are to the truth, in words. Null: they are exact, or tell their errors themselves."""


class SourceSummary(Described):
    """A source."""

    name: str
    """The name of the source."""
    description: str | None
    """Its description."""
    clock: datetime | None
    """The source's clock (UTC). Null: nothing was accepted yet."""


class MetricSummary(Described):
    """A metric that can be queried."""

    name: str
    """The name of the metric."""
    source: str
    """The name of its source."""
    description: str | None
    """Its description."""
    window: str | None
    """Its windows, such as `24h every 1h`. Null: it has a row for each hour."""
    sessions: bool
    """Whether its windows are sessions, which follow from the events of each group."""
    dimensions: list[Column]
    """Its dimensions."""
    measures: list[Column]
    """Its measures."""


class ProjectAnswer(Described):
    """The sources and metrics of the project."""

    project: str
    """The name of the project."""
    token: str
    """The token of the newest snapshot."""
    sql: bool
    """Whether the client may send free SQL."""
    sources: list[SourceSummary]
    """The sources."""
    metrics: list[MetricSummary]
    """The metrics that can be queried."""


class MetricAnswer(Described):
    """Rows of a metric."""

    metric: str
    """The name of the metric."""
    token: str
    """The token of the snapshot. `as_of` repeats the answer with it."""
    states: dict[str, int]
    """The number of hours that the result includes, by state."""
    lacks: list[str]
    """What the result lacks: a sentence for its missing hours, with the command that computes them."""
    waiting: list[WaitingOf] | None
    """What it does not count yet, if `waiting` was asked for. Null: it was not."""
    columns: list[Column]
    """The columns of the rows."""
    rows: list[dict[str, Any]]
    """The rows. Lists and structs are lists and objects of JSON; in CSV, a cell has them as JSON."""
    next: str | None
    """The address of the next page of the same snapshot. Null: this is the last one."""


class CellAnswer(Described):
    """One hour of a metric, for one group or several groups merged."""

    metric: str
    """The name of the metric."""
    hour: datetime
    """The hour (UTC)."""
    state: str
    """The state of the hour."""
    dimensions: dict[str, str | None]
    """The dimensions that were asked for. The others are rolled up."""
    measures: dict[str, Any]
    """The values, by measure. All null if the hour is missing."""
    token: str
    """The token of the snapshot."""
    report: str | None
    """The address of the page of its newest audit. Null: there is no page."""
    waiting: list[WaitingOf] | None
    """What it does not count yet, if `waiting` was asked for. Null: it was not."""
