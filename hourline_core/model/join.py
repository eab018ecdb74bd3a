"""A join: the events of a source are the pairs of events of two others, within an interval and by a key. A left or full
join has events without a partner, too.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.names import FieldName, SourceName
from hourline_core.model.times import Duration

KEY_TYPES = ("string", "int", "long", "boolean", "date", "timestamp")
"""The types of fields whose values each engine compares alike."""

UNMATCHED = "unmatched"
"""The field of a left or full join that tells the events without a partner."""


class Within(Declaration):
    """How far apart the event times of two partners may be. `within: 1h` is short for
    `within: {before: 1h, after: 1h}`. Both bounds are inclusive, as those of ksqlDB and Kafka Streams.
    """

    before: Duration = timedelta(0)
    """The maximum time by which the event of `right` may be earlier than that of `left`."""

    after: Duration = timedelta(0)
    """The maximum time by which the event of `right` may be later than that of `left`."""

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``1h`` stands for ``{before: 1h, after: 1h}``."""
        return {"before": value, "after": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        if not self.model_fields_set:
            raise refuse("got no bound, allowed are `before`, `after` or both, such as within: {after: 1h}")
        return self


def _fields(value: Any) -> Any:
    if isinstance(value, str):
        return {value: value}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict):
        raise refuse(f"got {describe(value)}, allowed is `left_field: right_field`, or the name that both fields have")
    return value


class Join(Declaration):
    """A join of two sources. Each pair of an event of `left` and one of `right` with the same key, whose event times
    are not too far apart, becomes one event.
    """

    left: SourceName
    """The name of a source."""

    right: SourceName
    """The name of another source."""

    on: Annotated[
        dict[FieldName, FieldName],
        BeforeValidator(_fields, json_schema_input_type=dict[FieldName, FieldName] | list[FieldName] | FieldName),
        pydantic.Field(min_length=1),
    ]
    """The key: `left_field: right_field`, for each field of it. `on: order_id` is short for `on: {order_id: order_id}`.
    Two fields of a pair have the same type. An event with null in its key has no partner.
    """

    within: Annotated[Within, BeforeValidator(Within.from_short_form, json_schema_input_type=str | Within)]
    """How far apart the event times of partners may be: a duration, or `{before: …, after: …}`."""

    type: Literal["inner", "left", "full"] = "inner"
    """Which events without a partner become events, too. `inner`: none. `left`: those of `left`. `full`: those of both.
    The fields of the other source are null in them. They come once the clocks of both sources have passed the interval.
    """

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether events of `left`, and of `right`, become events without a partner."""
        return self.type != "inner", self.type == "full"

    @property
    def longest_wait(self) -> timedelta:
        """The maximum time by which a partner may be later than an event that becomes one without it."""
        waits = (self.within.after, self.within.before)
        return max((wait for wait, outer in zip(waits, self.outer, strict=True) if outer), default=timedelta(0))

    @property
    def inputs(self) -> tuple[str, str]:
        """The names of both sources."""
        return self.left, self.right

    @model_validator(mode="after")
    def _check_two(self) -> Self:
        if self.left == self.right:
            raise refuse(f"got '{self.right}' twice, allowed are two different sources", "right")
        return self
