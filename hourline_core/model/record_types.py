"""The types of values that a schema of Avro or Protobuf has, and the fields that follow from them.

A decoder gives Python values of them: ``bool``, ``int``, ``float``, ``str`` and ``bytes``; an ``int`` for the unscaled
number of a decimal, for days since 1970, for a time in its unit, and for an enum that has numbers; ``list``; ``dict``
for maps and records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType, TypeTree

Unit: TypeAlias = Literal["millis", "micros", "nanos"]

PrimitiveKind: TypeAlias = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string", "duration"]

MISSING: Any = object()
"""The default of a member that has none. ``None`` is the default null."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts. ``int`` has 32 bits, ``long`` 64; unsigned ones have no bit for the sign."""

    kind: PrimitiveKind
    signed: bool = True

    def __str__(self) -> str:
        return self.kind if self.signed else f"unsigned {self.kind}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    size: int

    def __str__(self) -> str:
        return f"fixed({self.size})"


@dataclass(frozen=True, slots=True)
class Uuid:
    """A UUID, written as text, or in 16 bytes."""

    in_bytes: bool

    def __str__(self) -> str:
        return "uuid"


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number of at most ``precision`` digits, ``scale`` of them behind the point. In ``size`` bytes; None: in any."""

    precision: int
    scale: int
    size: int | None = None

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Date:
    """Days since 1970."""

    def __str__(self) -> str:
        return "date"


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day, as a number since midnight."""

    unit: Unit

    def __str__(self) -> str:
        return f"time-{self.unit}"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A number since 1970. ``local``: in a zone that is not said. Otherwise in UTC."""

    unit: Unit
    local: bool = False

    def __str__(self) -> str:
        return f"{'local-' if self.local else ''}timestamp-{self.unit}"


@dataclass(frozen=True, slots=True)
class Enum:
    """One of ``symbols``. The value is its name."""

    name: str
    symbols: tuple[str, ...]

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class NumberedEnum:
    """One of ``names``, which are by number. The value is the number, which may have no name."""

    name: str
    names: Mapping[int, str]

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of nanoseconds."""

    def __str__(self) -> str:
        return "duration"


@dataclass(frozen=True, slots=True)
class JsonValue:
    """Any value that JSON has, as Python has it."""

    def __str__(self) -> str:
        return "json"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value whose type is not in the schema. No declared type takes it."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Array:
    """A list."""

    element: "RecordType"

    def __str__(self) -> str:
        return "array"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by a text."""

    value: "RecordType"

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple["RecordType", ...]

    def __str__(self) -> str:
        return f"union of {', '.join(map(str, self.branches))}"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a record. ``aliases`` are its names in other schemas. ``default`` is a JSON value, or MISSING."""

    name: str
    type: "RecordType"
    aliases: tuple[str, ...] = ()
    default: Any = MISSING


@dataclass(eq=False, slots=True)
class Record:
    """Named members. It may have itself as a part, so its members are added after it is made."""

    name: str
    members: tuple[Member, ...] = ()
    aliases: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"record {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The default of a member that a record does not have, with its ``type``."""

    type: "RecordType"
    value: Any

    def __str__(self) -> str:
        return str(self.type)


RecordType: TypeAlias = (
    Primitive
    | Fixed
    | Uuid
    | Decimal
    | Date
    | Time
    | Timestamp
    | Enum
    | NumberedEnum
    | Duration
    | JsonValue
    | Opaque
    | Array
    | Map
    | Union
    | Record
    | Constant
)


def without_null(kind: RecordType) -> RecordType:
    """``kind`` without its branch null: of a union with one other branch, that branch."""
    if not isinstance(kind, Union):
        return kind
    branches = tuple(branch for branch in kind.branches if branch != Primitive("null"))
    return branches[0] if len(branches) == 1 else Union(branches)


def declared_type(kind: RecordType) -> TypeTree | None:
    """The declared type that takes all values of ``kind``. None: there is none."""
    return _declared(kind, ())


def fields_of(record: Record) -> Iterator[tuple[str, str | None]]:
    """The name of each member of ``record``, and the declared type that takes it. None: there is none."""
    for member in record.members:
        tree = declared_type(member.type)
        yield member.name, None if tree is None else str(tree)


_SCALARS = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "string",
}


def _declared(  # noqa: PLR0911, PLR0912 (a table of types)
    kind: RecordType, within: tuple[Record, ...]
) -> TypeTree | None:
    match without_null(kind):
        case Primitive("int", signed=False):
            return ScalarType("long")
        case Primitive("long", signed=False):
            return DecimalType(20, 0)
        case Primitive(name):
            return ScalarType(_SCALARS[name]) if name in _SCALARS else None
        case Decimal(precision, scale):
            return DecimalType(precision, scale) if precision <= 38 else None
        case Date():
            return ScalarType("date")
        case Timestamp(local=False):
            return ScalarType("timestamp")
        case Fixed() | Uuid() | Time() | Timestamp() | Enum() | NumberedEnum():
            return ScalarType("string")
        case JsonValue():
            return ScalarType("json")
        case Duration() | Opaque():
            return None
        case Array(element):
            tree = _declared(element, within)
            return tree and ArrayType(tree)
        case Map(value):
            tree = _declared(value, within)
            return tree and MapType(tree)
        case Union(branches):
            return _declared_of_union([_declared(branch, within) for branch in branches])
        case Record() as record:
            return _declared_of_record(record, within)
        case Constant(inner):
            return _declared(inner, within)


def _declared_of_union(trees: list[TypeTree | None]) -> TypeTree | None:
    if None in trees or not trees:
        return None
    kinds = set(map(str, trees))
    for wide, narrow in (("long", "int"), ("double", "float")):
        if kinds == {wide, narrow}:
            return ScalarType(wide)
    return trees[0] if len(kinds) == 1 else ScalarType("json")


def _declared_of_record(record: Record, within: tuple[Record, ...]) -> TypeTree | None:
    if record in within:
        return ScalarType("json")
    members = [(member.name, _declared(member.type, (*within, record))) for member in record.members]
    readable = [(name, tree) for name, tree in members if tree is not None]
    if len({name.casefold() for name, _ in readable}) < len(readable):
        return ScalarType("json")
    return StructType(tuple(readable)) if readable else None
