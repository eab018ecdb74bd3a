"""A join: the events of a source are the pairs of events of two others, or of two events of one other, within an
interval and by a key. A left or full join has events without a partner, too.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, model_serializer, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.expressions import Expression
from hourline_core.model.names import SourceName
from hourline_core.model.scratch_columns import EVENT_TIME, visible_name
from hourline_core.model.times import Duration

KEY_TYPES = ("string", "int", "long", "boolean", "date", "timestamp")
"""The types of keys, whose values each engine compares alike."""

UNMATCHED = "unmatched"
"""The field of a left or full join that tells the events without a partner."""

JOINED_ROW = "joined_row"
"""The field of a join whose inputs may take events back: what tells a joined event from all others."""


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


class JoinSide(Declaration):
    """One side of a join. `left: orders` is short for `left: {source: orders}`."""

    source: SourceName
    """The name of a source."""

    as_: SourceName | None = pydantic.Field(default=None, alias="as")
    """The name that the join calls it by, in front of the names of its fields. If left out, the name of the source.
    If both sides are one source, at least one of them has another name.
    """

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``orders`` stands for ``{source: orders}``."""
        if isinstance(value, str):
            return {"source": value}
        if not isinstance(value, dict | JoinSide):
            raise refuse(f"got {describe(value)}, allowed is the name of a source, or {{source: …, as: …}}")
        return value

    @model_serializer
    def as_short_as_possible(self) -> str | dict[str, str]:
        """What it is in an archive's decoding: a side without a name of its own is the name of the source."""
        return self.source if self.name == self.source else {"source": self.source, "as": self.name}

    @property
    def name(self) -> str:
        """The name that the join calls it by."""
        return self.as_ or self.source

    def __str__(self) -> str:
        return self.source if self.name == self.source else f"{self.source} as {self.name}"

    def joined_names(self, fields: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The names that its event time and then its ``fields`` have in the joined source, each with what it is, in
        words.
        """
        event_time = visible_name(EVENT_TIME, {name.casefold() for name in fields})
        yield f"{self.name}_{event_time}", f"the event time of '{self.name}'"
        yield from ((f"{self.name}_{name}", f"field '{name}' of '{self.name}'") for name in fields)


def _keys(value: Any) -> Any:
    if isinstance(value, str):
        return {value: value}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict):
        raise refuse(f"got {describe(value)}, allowed is `left_field: right_field`, or the name that both have")
    return value


SideForm = Annotated[JoinSide, BeforeValidator(JoinSide.from_short_form, json_schema_input_type=SourceName | JoinSide)]


class Join(Declaration):
    """A join of two sources, or of one with itself. Each pair of an event of `left` and one of `right` with the same
    key, whose event times are not too far apart, becomes one event. An event is never its own partner.
    """

    left: SideForm
    """The name of a source, or `{source: …, as: …}`."""

    right: SideForm
    """The name of another source, or `{source: …, as: …}`, which may be the same one under another name."""

    on: Annotated[
        dict[Expression, Expression],
        BeforeValidator(_keys, json_schema_input_type=dict[Expression, Expression] | list[Expression] | Expression),
        pydantic.Field(min_length=1),
    ]
    """The key: `left_field: right_field`, for each part of it. `on: order_id` is short for `on: {order_id: order_id}`.
    A field is a declared or derived one, or an expression such as `cast(number AS string)`. Two fields of a pair have
    the same type. An event with null in its key has no partner.
    """

    within: Annotated[Within, BeforeValidator(Within.from_short_form, json_schema_input_type=str | Within)]
    """How far apart the event times of partners may be: a duration, or `{before: …, after: …}`."""

    type: Literal["inner", "left", "full"] = "inner"
    """Which events without a partner become events, too. `inner`: none. `left`: those of `left`. `full`: those of both.
    The fields of the other source are null in them. They come once the clocks of both sources have passed the interval,
    or later, when their last partner is taken back.
    """

    event_time: SourceName | None = None
    """The name of the side whose event time a pair has, such as `orders`. If left out, a pair has the later one. The
    clock of the source is behind by the time by which a pair may be later than its event time: `after` for the name of
    `left`, `before` for that of `right`. An event without a partner has its own event time.
    """

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether events of `left`, and of `right`, become events without a partner."""
        return self.type != "inner", self.type == "full"

    @property
    def timed_by(self) -> tuple[bool, bool]:
        """Whether a pair has the event time of `left`, and of `right`. Neither: the later one."""
        return self.event_time == self.left.name, self.event_time == self.right.name

    @property
    def longest_wait(self) -> timedelta:
        """The maximum time by which a partner may be later than the joined event: one that it is without, or a pair."""
        waits = (self.within.after, self.within.before)
        needed = zip(waits, self.outer, self.timed_by, strict=True)
        return max((wait for wait, outer, timed in needed if outer or timed), default=timedelta(0))

    @property
    def reaches(self) -> tuple[timedelta, timedelta]:
        """For `left` and `right`, how long before the clock of the joined source an event may lie and still be needed:
        new events may meet it, or events that wait may get it as a partner.
        """
        # If the clock is behind by `after`, events of `left` that it has passed meet no new ones.
        left_waits, right_waits = self.outer
        before, after, wait = self.within.before, self.within.after, self.longest_wait
        of_left = after if right_waits else max(after - wait, timedelta(0))
        return of_left, before if left_waits else max(before - wait, timedelta(0))

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        """Left and right."""
        return self.left, self.right

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the sources, each once."""
        return tuple(dict.fromkeys(side.source for side in self.sides))

    @model_validator(mode="after")
    def _check_two(self) -> Self:
        if self.left.name == self.right.name:
            way_out = f"such as `right: {{source: {self.right.source}, as: next}}`"
            raise refuse(
                f"got '{self.right.name}' twice, allowed are two names: call one side otherwise, {way_out}", "right"
            )
        if self.event_time is not None and not any(self.timed_by):
            raise refuse(
                f"got {describe(self.event_time)}, allowed is the name of a side, '{self.left.name}' or "
                f"'{self.right.name}', or to leave it out",
                "event_time",
            )
        return self
