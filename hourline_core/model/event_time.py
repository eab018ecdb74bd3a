"""The event time of a source: an expression over the fields, and the encoding of its value."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.expressions import Expression
from hourline_core.model.times import Zone


class EventTime(Declaration):
    """The event time of a source. `event_time: sent_at` is short for `event_time: {expression: sent_at}`.

    Hourline converts every encoding to UTC.
    """

    expression: Expression
    """A field, or an expression over the fields."""

    encoding: Literal["iso", "epoch_seconds", "epoch_milliseconds", "local"] = "iso"
    """How to read the value. `iso`: ISO 8601 text with an offset or Z, or a timestamp. `epoch_seconds` and
    `epoch_milliseconds`: a number since 1970 in UTC. `local`: ISO 8601 text without an offset, or a `timestamp_ntz`,
    in `zone`.
    """

    zone: Zone | None = None
    """The IANA time zone of local times, such as `America/New_York`. The encoding `local` requires it. No other
    encoding allows it.
    """

    @model_validator(mode="after")
    def _check_zone(self) -> Self:
        if self.encoding == "local" and self.zone is None:
            raise refuse(
                "got the encoding 'local' without a zone, allowed is local with one, such as zone: America/New_York",
                "encoding",
            )
        if self.encoding != "local" and self.zone is not None:
            raise refuse(
                f"got a zone with the encoding '{self.encoding}', allowed is a zone with encoding: local only", "zone"
            )
        return self

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """``event_time: sent_at`` stands for ``event_time: {expression: sent_at}``."""
        if value is None:
            raise refuse("got nothing, allowed is a field or an expression over the fields")
        return {"expression": value} if isinstance(value, str) else value


EventTimeForm = Annotated[EventTime, BeforeValidator(EventTime.from_short_form, json_schema_input_type=str | EventTime)]
"""An event time in its long or short form."""
