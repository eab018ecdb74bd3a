"""The declared volume of a source: how much is expected in an hour, and how much of it is late, repeated or
rejected.
"""

from typing import Annotated, Literal, Self

import pydantic
from pydantic import AfterValidator, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.expectation import History, HistoryForm, Severity


def _share(share: float) -> float:
    if not 0 <= share < 1:
        above = ", which no share is above" if share == 1 else ""
        raise refuse(f"got {share:g}{above}, allowed is a share from 0 to below 1, such as 0.05")
    return share


Events = Annotated[int, pydantic.Field(ge=0)]
Share = Annotated[
    float, AfterValidator(_share), WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1})
]


class Volume(Declaration):
    """What is expected of the volume of an hour, also of an hour without events: `volume: {min: 100, late: 0.05}`.

    By default, an hour gets a warning if its number of events differs from past days, and if a source that normally has
    events in every hour is silent.
    """

    min: Annotated[int, pydantic.Field(ge=1)] | None = None
    """The minimum number of events in an hour, from 1."""

    max: Events | None = None
    """The maximum number of events in an hour."""

    late: Share | None = None
    """The maximum share of late events among the events of an hour, from 0 to below 1."""

    duplicates: Share | None = None
    """The maximum share of duplicates among the events and duplicates of an hour, from 0 to below 1. Only duplicates
    that the speed layer has recognised are counted.
    """

    rejected: Share | None = None
    """The maximum share of rejected records, from 0 to below 1. A rejected record has no hour, so the share is computed
    over all records of the micro-batches that had events of the hour.
    """

    severity: Severity = "fail"
    """The consequence for an hour outside the bounds above. `fail`: the hour is blocked. `warn`: the hour is published,
    and the reports show the warning.
    """

    history: HistoryForm = History()
    """The comparison of the number of events with the same hour (UTC) of past days: `fail`, `warn` or `off`, or a
    mapping.
    """

    silence: Literal["fail", "warn", "off"] = "warn"
    """The consequence of a silence, which is three or more successive hours without events. It applies to the third and
    each later hour, unless there was another silence in the 7 days before. `fail`: the hour is blocked. `warn`: the
    reports show the warning. `off`: silence is not checked.
    """

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise refuse(f"got {self.min}, allowed is a number up to max, {self.max}", "min")
        return self
