"""Schemas of Avro: their JSON as types of records. Rules: https://avro.apache.org/docs/1.12.0/specification/

A logical type that is not valid, or not known, is ignored as the specification wants it: its values are those of the
type below it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from hourline_core.model.base import describe
from hourline_core.model.record_types import (
    MISSING,
    Array,
    Date,
    Decimal,
    Enum,
    Fixed,
    Map,
    Member,
    Primitive,
    Record,
    RecordType,
    Time,
    Timestamp,
    Union,
    Uuid,
)

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL: Mapping[tuple[str, str], RecordType] = {
    ("int", "date"): Date(),
    ("int", "time-millis"): Time("millis"),
    ("long", "time-micros"): Time("micros"),
    **{("long", f"timestamp-{unit}"): Timestamp(unit) for unit in ("millis", "micros", "nanos")},
    **{("long", f"local-timestamp-{unit}"): Timestamp(unit, local=True) for unit in ("millis", "micros", "nanos")},
    ("string", "uuid"): Uuid(in_bytes=False),
}
_ALLOWED = f"allowed are {', '.join(_PRIMITIVES)}, record, enum, fixed, array, map, a list of them, and a name"
_DEEPEST = 64
_LARGEST_FIXED = 1 << 20
_MOST_DIGITS = 1000


class AvroSchemaError(ValueError):
    """A schema is not valid. The text says where, what was got and what is allowed."""


def parse_avro(text: str, references: Mapping[str, str] | None = None) -> Record:
    """The record that ``text``, a schema as JSON, declares. ``references`` are texts of schemas whose types it names.

    Raises AvroSchemaError if it is no schema, or not that of a record.
    """
    parsing = _Parsing()
    for reference in (references or {}).values():
        parsing.parse(_json_of(reference))
    kind = parsing.parse(_json_of(text))
    if not isinstance(kind, Record):
        raise AvroSchemaError(f"got a schema of {kind}, allowed is one of a record")
    return kind


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError(f"got no JSON, allowed is a schema as JSON: {error}") from None


class _Parsing:
    """One pass over a schema. Types that have a name are known from their declaration on, also within themselves."""

    def __init__(self) -> None:
        self._named: dict[str, RecordType] = {}

    def parse(self, schema: Any, namespace: str = "", path: str = "", depth: int = 0) -> RecordType:
        where = path or "the schema"
        if depth > _DEEPEST:
            raise AvroSchemaError(f"{where}: got more than {_DEEPEST} types within each other, allowed are {_DEEPEST}")
        match schema:
            case str():
                return self._by_name(schema, namespace, where)
            case list():
                return self._union(schema, namespace, path, depth)
            case {"type": str(name)} if name in _NAMED:
                return self._named_type(name, schema, namespace, path, depth)
            case {"type": "array", "items": items}:
                return Array(self.parse(items, namespace, f"{path}[]", depth + 1))
            case {"type": "map", "values": values}:
                return Map(self.parse(values, namespace, f"{path}{{}}", depth + 1))
            case {"type": ("array" | "map") as name}:
                raise AvroSchemaError(f"{where}: got no {'items' if name == 'array' else 'values'} of an {name}")
            case {"type": inner}:
                return _with_logical_type(self.parse(inner, namespace, path, depth + 1), schema)
        raise AvroSchemaError(f"{where}: got {describe(schema)}, {_ALLOWED}")

    def _by_name(self, name: str, namespace: str, where: str) -> RecordType:
        if name in _PRIMITIVES:
            return Primitive(name)  # type: ignore[arg-type]
        for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full in self._named:
                return self._named[full]
        raise AvroSchemaError(f"{where}: got the type {describe(name)}, which is not declared before; {_ALLOWED}")

    def _union(self, schemas: list[Any], namespace: str, path: str, depth: int) -> Union:
        branches = tuple(self.parse(one, namespace, path, depth + 1) for one in schemas)
        where = path or "the schema"
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise AvroSchemaError(
                f"{where}: got a union of {len(branches)} types, allowed is at least one, and no union"
            )
        names = [_name_in_union(one, branch) for one, branch in zip(schemas, branches, strict=True)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise AvroSchemaError(f"{where}: got the type {twice} twice in a union, allowed is each one once")
        return Union(branches)

    def _named_type(self, kind: str, schema: Mapping[str, Any], namespace: str, path: str, depth: int) -> RecordType:
        name, namespace = _full_name(schema, namespace, path or "the schema")
        if name in self._named:
            raise AvroSchemaError(f"{path or 'the schema'}: got the name {name} again, allowed is each name once")
        aliases = tuple(
            alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in _aliases(schema)
        )
        match kind:
            case "enum":
                self._named[name] = Enum(name, _symbols(schema, name))
            case "fixed":
                self._named[name] = _with_logical_type(Fixed(_size(schema, name)), schema)
            case _:
                record = self._named[name] = Record(name, aliases=aliases)
                record.members = self._members(schema, record, namespace, path, depth)
        return self._named[name]

    def _members(
        self, schema: Mapping[str, Any], record: Record, namespace: str, path: str, depth: int
    ) -> tuple[Member, ...]:
        declared = schema.get("fields")
        if not isinstance(declared, list):
            raise AvroSchemaError(f"{record}: got {describe(declared)} as fields, allowed is a list of fields")
        members: dict[str, Member] = {}
        for one in declared:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in members or "type" not in one:
                raise AvroSchemaError(
                    f"{record}: got the field {describe(one)}, allowed is one with a type, and with a name of its own "
                    "of letters, digits and _"
                )
            inner = f"{path}.{name}" if path else name
            kind = self.parse(one["type"], namespace, inner, depth + 1)
            members[name] = Member(name, kind, tuple(_aliases(one)), one.get("default", MISSING))
        return tuple(members.values())


def _full_name(schema: Mapping[str, Any], namespace: str, where: str) -> tuple[str, str]:
    """The name of a type with its namespace, and the namespace of names within it."""
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise AvroSchemaError(f"{where}: got the name {describe(name)}, allowed are letters, digits and _")
    full = name if "." in name or not own else f"{own}.{name}"
    if not all(_NAME.fullmatch(part) for part in full.split(".")):
        raise AvroSchemaError(f"{where}: got the name {describe(full)}, allowed are letters, digits and _")
    return full, full.rpartition(".")[0]


def _aliases(schema: Mapping[str, Any]) -> list[str]:
    aliases = schema.get("aliases", [])
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []


def _symbols(schema: Mapping[str, Any], name: str) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    is_valid = isinstance(symbols, list) and all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols)
    if not is_valid or not symbols or len(set(symbols)) < len(symbols):
        raise AvroSchemaError(f"enum {name}: got {describe(symbols)} as symbols, allowed is a list of different names")
    return tuple(symbols)


def _size(schema: Mapping[str, Any], name: str) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_FIXED:
        raise AvroSchemaError(f"fixed {name}: got the size {describe(size)}, allowed is a number of bytes")
    return size


def _name_in_union(schema: Any, branch: RecordType) -> str:
    """What must not be twice in a union: the name of a type that has one, or the type below a logical one."""
    if isinstance(branch, Record | Enum):
        return branch.name
    while isinstance(schema, dict) and schema.get("type") not in _NAMED:
        schema = schema.get("type")
    return str(schema["name"] if isinstance(schema, dict) else schema)


def _with_logical_type(kind: RecordType, schema: Mapping[str, Any]) -> RecordType:
    logical = schema.get("logicalType")
    match kind, logical:
        case ((Primitive("bytes") | Fixed()), "decimal"):
            return _decimal(kind, schema)
        case Fixed(16), "uuid":
            return Uuid(in_bytes=True)
        case Fixed(12), "duration":
            return Primitive("duration")
        case Primitive(name), str():
            return _LOGICAL.get((name, logical), kind)
    return kind


def _decimal(kind: RecordType, schema: Mapping[str, Any]) -> RecordType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0):
        return kind
    if precision > _MOST_DIGITS:
        raise AvroSchemaError(f"got a decimal with the precision {precision}, allowed are {_MOST_DIGITS}")
    if not isinstance(kind, Fixed):
        return Decimal(precision, scale)
    # One that the bytes cannot hold is not valid, so it is ignored.
    return Decimal(precision, scale, kind.size) if 10**precision <= 1 << max(8 * kind.size - 1, 0) else kind
