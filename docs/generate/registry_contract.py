"""What is read of a record in Avro that was written by another schema than that of its source. Each row is tested."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Member = Mapping[str, Any]
"""A field of a record in a schema of Avro, as JSON."""


@dataclass(frozen=True)
class Row:
    """How the schema of the record differs, and what a source reads, which has the fields that follow from its own."""

    difference: str
    """What the schema of the record has, in words."""
    written: tuple[Member, ...]
    read: tuple[Member, ...]
    """The same members in the schema of the source."""
    value: Mapping[str, Any]
    """As fastavro writes it."""
    taken: Mapping[str, Any] | None = None
    """The fields. None: the record is rejected."""
    names: tuple[str, str] = ("Order", "Order")
    """Those of both records."""
    aliases: tuple[str, ...] = field(default=())
    """Those of the record of the source."""


def _member(name: str, kind: Any, **more: Any) -> Member:
    return {"name": name, "type": kind, **more}


_N = _member("n", "int")
_PLACE = {"type": "record", "name": "Place", "fields": [_member("lat", "double"), _member("more", "string")]}
_PLACE_READ = {
    "type": "record",
    "name": "Place",
    "fields": [_member("latitude", "double", aliases=["lat"]), _member("city", "string", default="?")],
}

ROWS = (
    Row("no member that has a default", (_N,), (_N, _member("m", "string", default="x")), {"n": 1}, {"n": 1, "m": "x"}),
    Row("no member without a default", (_N,), (_N, _member("m", "string")), {"n": 1}),
    Row("a further member", (_N, _member("m", "string")), (_N,), {"n": 1, "m": "x"}, {"n": 1}),
    Row(
        "its members in another order",
        (_member("m", "int"), _N),
        (_N, _member("m", "int")),
        {"n": 1, "m": 2},
        {"n": 1, "m": 2},
    ),
    Row("a member under an alias", (_N,), (_member("count", "int", aliases=["n"]),), {"n": 1}, {"count": 1}),
    Row("int in the place of long", (_N,), (_member("n", "long"),), {"n": 1}, {"n": 1}),
    Row("int in the place of double", (_N,), (_member("n", "double"),), {"n": 1}, {"n": 1.0}),
    Row("float in the place of double", (_member("n", "float"),), (_member("n", "double"),), {"n": 0.5}, {"n": 0.5}),
    Row("long in the place of int, with a value that int holds", (_member("n", "long"),), (_N,), {"n": 1}, {"n": 1}),
    Row("long in the place of int, with another value", (_member("n", "long"),), (_N,), {"n": 1 << 40}),
    Row("string in the place of int", (_member("n", "string"),), (_N,), {"n": "1"}),
    Row("a type in the place of a union with null", (_N,), (_member("n", ["null", "int"]),), {"n": 1}, {"n": 1}),
    Row("a union with null in the place of a type", (_member("n", ["null", "int"]),), (_N,), {"n": None}, {"n": None}),
    Row(
        "an enum symbol that the declared schema does not have",
        (_member("n", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),),
        (_member("n", {"type": "enum", "name": "E", "symbols": ["A"]}),),
        {"n": "B"},
        {"n": "B"},
    ),
    Row(
        "the same within an inner record",
        (_member("at", _PLACE),),
        (_member("at", _PLACE_READ),),
        {"at": {"lat": 1.5, "more": "x"}},
        {"at": {"latitude": 1.5, "city": "?"}},
    ),
    Row("another namespace", (_N,), (_N,), {"n": 1}, {"n": 1}, ("shop.Order", "Order")),
    Row(
        "a name that is an alias", (_N,), (_N,), {"n": 1}, {"n": 1}, names=("Purchase", "Order"), aliases=("Purchase",)
    ),
    Row("another name", (_N,), (_N,), {"n": 1}, names=("Payment", "Order")),
)
