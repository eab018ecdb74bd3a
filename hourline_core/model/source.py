"""A source: a Kafka topic of typed events, with an event time and, optionally, a unique id."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, Self

import pydantic
from pydantic import AfterValidator, model_validator

from hourline_core.model.base import Declaration, refuse, shown
from hourline_core.model.event_time import EventTimeForm
from hourline_core.model.expectation import ExpectationForm
from hourline_core.model.expressions import Expression
from hourline_core.model.fields import FieldForm
from hourline_core.model.names import FieldName, SourceName, refuse_same_names
from hourline_core.model.times import Duration, Moment


def _topic(name: str) -> str:
    allowed = name not in (".", "..") and 0 < len(name) <= 249
    if not allowed or not all(
        character.isascii() and (character.isalnum() or character in "._-") for character in name
    ):
        raise refuse(f"got {shown(name)}, allowed are up to 249 letters, digits, '.', '_' and '-'")
    return name


class Source(Declaration):
    """One source, as declared in ``sources/NAME.yaml``."""

    name: SourceName
    """The source's name; the file's name without its ending, if left out."""

    topic: Annotated[str, AfterValidator(_topic)]
    """The Kafka topic that the events come from."""

    format: Literal["json"] = "json"
    """How a record's value is written: one JSON object."""

    fields: Annotated[dict[FieldName, FieldForm], pydantic.Field(min_length=1)]
    """The fields of an event, by the name they have in it: `name: type`, or `name: {type: …, required: true}`."""

    event_time: EventTimeForm
    """When an event happened: a field or expression, or `{expression: …, encoding: …, zone: …}`."""

    id: Expression | None = None
    """What identifies an event (a Spark SQL expression); of events with the same id in the same hour the first counts.
    """

    id_horizon: Duration = timedelta(days=1)
    """How far back in event time an id is recognised at once; a duplicate beyond it counts until its hour is
    recomputed.
    """

    derived: dict[FieldName, Expression] = pydantic.Field(default={})
    """Further fields, computed: `name: Spark SQL expression over the fields`."""

    where: Expression | None = None
    """Which events count (a Spark SQL condition over fields and derived fields); the others are archived, and count
    nowhere.
    """

    expectations: list[ExpectationForm] = pydantic.Field(default=[])
    """What must hold of an hour's events before any metric over them is published: a list of `expect_…: {parameter:
    value}`.
    """

    clock: Literal["event_time", "wall"] = "event_time"
    """What closes an hour: the highest event time seen, or the time of day."""

    grace: Duration = timedelta(hours=1)
    """How long after its end an hour closes, and is recomputed for good: 30s, 90m, 2h, 1d."""

    ahead: Duration = timedelta(days=1)
    """An event time more than this ahead of the record's arrival is absurd: the record is rejected."""

    earliest: Moment = datetime(1970, 1, 1, tzinfo=UTC)
    """An event time before this is absurd: the record is rejected. UTC."""

    latest: Moment | None = None
    """An event time at or after this is absurd: the record is rejected. UTC."""

    partitions: Annotated[int, pydantic.Field(ge=1)] = 1
    """How many partitions the topic gets, where Hourline creates it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_same_names(fields=self.fields, derived=self.derived)
        if self.latest is not None and self.latest <= self.earliest:
            raise refuse(
                f"got {self.latest.isoformat()}, allowed is a time after earliest, {self.earliest.isoformat()}",
                "latest",
            )
        return self
