"""The type of a field: the text of a declaration as a small tree, and the tree as Spark DDL."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hourline_core.model.base import describe, refuse, suggest
from hourline_core.model.expressions import UNCLOSED, outer_commas

SPARK_TYPES = {
    "string": "string",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "date": "date",
    "json": "string",
}
"""The types without parts, by the name that a field is declared with, and the Spark type of each."""

_WITHIN = {"integer": "int", "bigint": "long", "smallint": "smallint", "tinyint": "tinyint"}
"""More names, within a nested type only, as Spark spells them."""

ONLY_NESTED = frozenset(_WITHIN.values()) - SPARK_TYPES.keys()
"""The types that a field has only within a nested one."""

_OTHER_WORDS = {
    "bigint": "long",
    "integer": "int",
    "smallint": "int",
    "tinyint": "int",
    "number": "double",
    "numeric": "decimal(18,2)",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "varchar": "string",
    "datetime": "timestamp",
    "timestamp_ntz": "string",
    "time": "timestamp",
    "list": "array<string>",
    "object": "struct<a: string>",
    "variant": "json",
}
ALLOWED_TYPES = f"allowed are {', '.join(SPARK_TYPES)}, decimal(p,s), struct<a: string, …>, array<…> and map<string, …>"
_ALLOWED_FORMS = {"struct": "struct<name: type, …>", "array": "array<type>", "map": "map<string, type>"}
_DEEPEST = 32
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)
_NESTED = re.compile(r"(struct|array|map)\s*<(.*)>", re.DOTALL | re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMBER = re.compile(r"(?:([A-Za-z0-9_]+)|`((?:[^`]|``)+)`)(?:\s*:\s*|\s+)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without parts."""

    kind: str
    """A key of SPARK_TYPES, ``smallint`` or ``tinyint``."""

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of at most ``precision`` digits, ``scale`` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named members. No two of their names are equal, apart from case."""

    members: tuple[tuple[str, "TypeTree"], ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{_quoted_if_needed(name)}: {kind}' for name, kind in self.members)}>"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type."""

    element: "TypeTree"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Values of one type by a text."""

    value: "TypeTree"

    def __str__(self) -> str:
        return f"map<string, {self.value}>"


TypeTree: TypeAlias = ScalarType | DecimalType | StructType | ArrayType | MapType
"""A declared type. ``str`` of it is a text that ``parse_type`` reads again."""


def parse_type(text: str) -> TypeTree:
    """The type that ``text`` declares. Raises a pydantic error that says what is allowed."""
    text = text.strip()
    if outer_commas(text, opening="(<", closing=")>") is None:
        raise refuse(f"got {describe(text)}, {UNCLOSED}")
    return _parse(text, SPARK_TYPES, depth=0)


def spark_ddl(tree: TypeTree) -> str:
    """The Spark type that holds values of ``tree``, as DDL with every member's name in backquotes."""
    match tree:
        case ScalarType(kind):
            return SPARK_TYPES.get(kind, kind)
        case DecimalType():
            return str(tree)
        case ArrayType(element):
            return f"array<{spark_ddl(element)}>"
        case MapType(value):
            return f"map<string, {spark_ddl(value)}>"
        case StructType(members):
            return f"struct<{', '.join(f'{_quoted(name)}: {spark_ddl(kind)}' for name, kind in members)}>"


def is_spark_ddl(tree: TypeTree) -> bool:
    """Whether Spark reads the text that declared ``tree`` as it stands."""
    match tree:
        case ScalarType(kind):
            return kind != "json"
        case ArrayType(part) | MapType(part):
            return is_spark_ddl(part)
        case StructType(members):
            return all(_PLAIN_NAME.fullmatch(name) and is_spark_ddl(kind) for name, kind in members)
    return True


def _parse(text: str, names: Sequence[str] | dict[str, str], *, depth: int) -> TypeTree:
    if depth > _DEEPEST:
        raise refuse(f"got a type of more than {_DEEPEST} levels, allowed are at most {_DEEPEST}")
    word = text.casefold() if depth else text
    if word in names:
        return ScalarType(_WITHIN.get(word, word))
    if decimal := _DECIMAL.fullmatch(word):
        precision, scale = int(decimal[1][:9]), int(decimal[2][:9])
        if 1 <= precision <= 38 and scale <= precision:
            return DecimalType(precision, scale)
        raise refuse(f"got {describe(text)}, allowed is decimal(p,s) with p from 1 to 38 and s from 0 to p")
    if nested := _NESTED.fullmatch(text):
        return _parse_nested(text, nested[1].casefold(), nested[2], depth=depth + 1)
    first = re.split(r"[(<]", text.casefold())[0].strip()
    if first == "decimal":
        raise refuse(f"got {describe(text)}, allowed is decimal(p,s), such as decimal(18,2)")
    if first in _OTHER_WORDS:
        raise refuse(f"got {describe(text)}, {ALLOWED_TYPES} — did you mean '{_OTHER_WORDS[first]}'?")
    raise refuse(f"got {describe(text)}, {ALLOWED_TYPES}{suggest(first, [*SPARK_TYPES, 'struct', 'array', 'map'])}")


def _parse_nested(text: str, kind: str, inside: str, *, depth: int) -> TypeTree:
    commas = outer_commas(inside, opening="(<", closing=")>")
    parts = [] if commas is None or not inside.strip() else _split(inside, commas)
    if len(parts) != {"array": 1, "map": 2}.get(kind, len(parts) or 1) or not all(parts):
        raise refuse(f"got {describe(text)}, allowed is {_ALLOWED_FORMS[kind]}")
    names = (*SPARK_TYPES, *_WITHIN)
    if kind == "array":
        return ArrayType(_parse(parts[0], names, depth=depth))
    if kind == "map":
        if parts[0].casefold() != "string":
            raise refuse(
                f"got {describe(text)}, allowed is {_ALLOWED_FORMS['map']}: the names in a JSON object are texts"
            )
        return MapType(_parse(parts[1], names, depth=depth))
    members: dict[str, tuple[str, TypeTree]] = {}
    for part in parts:
        member = _MEMBER.fullmatch(part)
        if member is None:
            raise refuse(
                f"got {describe(part)} in {describe(text)}, allowed is name: type, "
                "and a name with other characters than letters from a to z, digits and _ in backquotes"
            )
        name = member[1] or member[2].replace("``", "`")
        if name.casefold() in members:
            raise refuse(
                f"got the name {describe(name)} twice in {describe(text)}, allowed is each name once "
                "(upper and lower case are the same)"
            )
        members[name.casefold()] = (name, _parse(member[3].strip(), names, depth=depth))
    return StructType(tuple(members.values()))


def _split(text: str, commas: list[int]) -> list[str]:
    return [text[start:end].strip() for start, end in zip([0, *(c + 1 for c in commas)], [*commas, None], strict=True)]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quoted_if_needed(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _quoted(name)
