"""A metric: dimensions and measures over one source, declared once for both layers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Self

import pydantic
from pydantic import BeforeValidator, model_validator

from hourline_core.errors import did_you_mean
from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expectation import (
    Expectation,
    ExpectationForm,
    History,
    HistoryForm,
    refuse_conditions,
    refuse_windows,
)
from hourline_core.model.expressions import Expression
from hourline_core.model.measure import Measure, MeasureForm
from hourline_core.model.metric_window import HOUR_WINDOW, WindowForm
from hourline_core.model.names import (
    RESERVED_COLUMNS,
    ColumnName,
    MetricName,
    SourceName,
    is_column_name,
    refuse_same_names,
)
from hourline_core.model.session_window import SESSION_BOUNDS, SessionWindow
from hourline_core.model.windows import HOURLY

WINDOW_COLUMNS = ("window_start", "window_end")
"""The columns that name a window: timestamps in UTC, the end is exclusive."""

PANE = "pane"
"""The column of tables and of ``<metric>_states`` with the start of a pane below an hour, a timestamp in UTC."""

_LIST_FORM = "allowed are field names in lower case and `name: expression`"


def _dimensions(value: Any) -> Any:
    """Convert a list of field names and ``{name: expression}`` mappings to one mapping."""
    if value is None or isinstance(value, str):
        raise refuse(f"got {describe(value)}, allowed is a list or a mapping, such as [{value or 'origin'}]")
    if not isinstance(value, list | tuple):
        return value
    dimensions: dict[str, object] = {}
    for index, item in enumerate(value):
        if isinstance(item, str) and not is_column_name(item):
            raise refuse(f"got {describe(item)}, {_LIST_FORM}: give it a name, as in `a_name: {item}`", str(index))
        if item == "hour":
            raise refuse("got 'hour', which each result has anyway: leave it out", str(index))
        if isinstance(item, str) and item in RESERVED_COLUMNS:
            raise refuse(
                f"got {describe(item)}, which Hourline uses itself: give it another name, as in `a_name: {item}`",
                str(index),
            )
        if not isinstance(item, str | dict):
            raise refuse(f"got {describe(item)}, {_LIST_FORM}", str(index))
        for name, expression in ({item: item} if isinstance(item, str) else item).items():
            if name in dimensions:
                raise refuse(f"got {describe(name)} again, allowed is each dimension once", str(index))
            dimensions[name] = expression
    return dimensions


class Metric(Declaration):
    """One metric, as declared in `metrics/NAME.yaml`.

    Instead of `source`, `dimensions`, `measures` and `where`, it may have `sql`: one SELECT statement that contains
    them. `hourline show METRIC` prints the equivalent keys.
    """

    name: MetricName
    """The metric's name. If left out, the name of the file without its ending."""

    source: SourceName
    """The name of the source whose events it is computed from."""

    description: str | None = None
    """A description for people."""

    dimensions: Annotated[
        dict[ColumnName, Expression],
        BeforeValidator(_dimensions, json_schema_input_type=list[str | dict[ColumnName, str]] | dict[ColumnName, str]),
    ] = pydantic.Field(default={})
    """The expressions that events are grouped by, besides the time: a list of fields and of `name: expression`, or one
    mapping. Without dimensions, each hour or window has one row.
    """

    measures: Annotated[dict[ColumnName, MeasureForm], pydantic.Field(min_length=1)]
    """The aggregates of each group of events, such as `name: count` or `name: sum(delay)`."""

    where: Expression | None = None
    """The condition, over fields and derived fields, that an event must fulfil to count in this metric."""

    window: WindowForm = HOUR_WINDOW
    """The period that a result covers: `5m`, `3h`, `1 day`, `1 week`, `1 month`, `1 year`, or a mapping, such as
    `{gap: 30m}` for sessions. The default is an hour. Recomputes, audits and publications work by the hour for all
    windows.
    """

    expectations: list[ExpectationForm] = pydantic.Field(default=[])
    """Expectations that the results of an hour, or of a window, must fulfil before an hour is published."""

    history: HistoryForm = History()
    """The comparison with the median of the same hour (UTC) of past days: `fail`, `warn` or `off`, or a mapping."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        refuse_same_names(dimensions=self.dimensions, measures=self.measures)
        if not self.window.is_hour:
            for place in ("dimensions", "measures"):
                for name in (*WINDOW_COLUMNS, PANE, *(SESSION_BOUNDS if self.session else ())):
                    if name in getattr(self, place):
                        raise refuse(
                            f"got the name {describe(name)}, which Hourline uses for windows: choose another",
                            place,
                            name,
                        )
        return self

    @model_validator(mode="after")
    def _check_expectations(self) -> Self:
        self.refuse_unfit(self.expectations)
        return self

    @model_validator(mode="after")
    def _check_operands(self) -> Self:
        known = {name: measure for name, measure in self.measures.items() if not measure.operands}
        for quotient, measure in self.measures.items():
            for name in measure.operands:
                if name not in known:
                    raise refuse(
                        f"got '{name}', allowed is a measure of this metric that is no ratio or rate"
                        f"{did_you_mean(name, known)}",
                        "measures",
                        quotient,
                    )
                kind = known[name].kind
                if measure.kind == "rate":
                    suits, allowed = kind in ("count", "sum"), "a count or a sum"
                else:
                    suits, allowed = kind not in ("any", "every", "top"), "a measure that is a number"
                if not suits:
                    raise refuse(f"got '{name}', allowed is {allowed}; it is {known[name]}", "measures", quotient)
        return self

    def refuse_unfit(self, expectations: Sequence[Expectation]) -> None:
        """Raise a refusal of the first expectation that this metric cannot have."""
        if self.window.is_hour:
            refuse_windows(expectations, "the windows of this metric are hours")
        if self.session:
            refuse_conditions(expectations)

    @property
    def session(self) -> SessionWindow | None:
        """Its sessions, if its windows are such."""
        return self.window if isinstance(self.window, SessionWindow) else None

    @property
    def stored_measures(self) -> dict[str, Measure]:
        """The measures that its tables have states of: the declared ones, and the bounds of sessions."""
        return {**self.measures, **SESSION_BOUNDS} if self.session else self.measures

    def windows_of(self, hour: datetime) -> list[tuple[int, int]]:
        """The start and end (exclusive) of each window that shares time with ``hour`` (UTC), in order, in microseconds
        since 1970. Sessions are not among them, since they follow from the events.
        """
        if isinstance(self.window, SessionWindow):
            return []
        windows = self.window.windows
        touching = windows.touching(hour, hour + HOURLY.size - windows.pane)
        return list(zip(touching.starts, touching.ends, strict=True))

    @property
    def pane(self) -> timedelta | None:
        """The length of the panes that its tables have states of. None: an hour, which needs no column."""
        return self.window.pane if self.window.pane < HOURLY.size else None

    @property
    def tile_columns(self) -> list[str]:
        """The columns of its tables that states are grouped by, besides the hour."""
        return [*([PANE] if self.pane else []), *self.dimensions]

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The columns that name the time of a result: the hour, or the start and end of the window."""
        return ("hour",) if self.window.is_hour else WINDOW_COLUMNS

    @property
    def hourly_views(self) -> list[str]:
        """The names of its views that have rows for each hour, besides the blocked hours' ``_staged``."""
        own = self.name if self.window.is_hour else f"{self.name}_hours"
        return [own, *(f"{self.name}_{end}" for end in ("states", "final", "provisional"))]

    @property
    def views(self) -> list[str]:
        """The names of its views, besides ``_staged``."""
        return self.hourly_views if self.window.is_hour else [self.name, *self.hourly_views]
