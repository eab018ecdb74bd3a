"""How a value is to be read: its declared type, with what its field declares beside it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hourline_core.model.field_types import ArrayType, MapType, StructType, TypeTree
from hourline_core.model.fields import Field

TimeEncoding: TypeAlias = Literal["iso", "local", "epoch_seconds", "epoch_milliseconds"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A declared type, and how its values are written. ``parts`` of a nested type are read in the same way.

    If ``numeric``, a date is a number of days since 1970, a timestamp one of microseconds, and a decimal the number
    without its point. Otherwise, they are as JSON has them.
    """

    tree: TypeTree
    encoding: TimeEncoding = "iso"
    zone: str | None = None
    rounds: bool = False
    numeric: bool = False

    @classmethod
    def of(cls, field: Field, *, numeric: bool = False) -> "Reading":
        """How the values of ``field`` are read."""
        return cls(field.tree, field.encoding, field.zone, field.round, numeric)

    @property
    def parts(self) -> tuple[tuple[str, "Reading"], ...]:
        """The members of a struct by name; the one part of an array or map, whose name is empty; else nothing."""
        match self.tree:
            case StructType(members):
                return tuple((name, Reading(part, numeric=self.numeric)) for name, part in members)
            case ArrayType(part) | MapType(part):
                return (("", Reading(part, numeric=self.numeric)),)
        return ()

    @property
    def want(self) -> str:
        """What is allowed, for a reason."""
        text = str(self.tree)
        if text == "timestamp":
            return _WANTED_TIMES[self.encoding]
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST = 80
_WANTED_TIMES = {
    "iso": "timestamp with an offset, such as 2013-01-05T14:30:00Z "
    "(without an offset: declare encoding: local and a zone for the field)",
    "local": "timestamp without an offset, such as 2013-01-05T14:30:00",
    "epoch_seconds": "timestamp as a number of seconds since 1970",
    "epoch_milliseconds": "timestamp as a number of milliseconds since 1970",
}
