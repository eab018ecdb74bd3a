"""Spark SQL that DuckDB computes with the same results, so that no column has to cross into Java for it.

It is a closed list:

- names of columns, plain literals, casts that lose nothing
- comparisons, AND, OR and NOT, IS NULL, IN, BETWEEN, CASE, IF, NULLIF, COALESCE
- arithmetic, the remainder and the quotient by a number, absolute and rounded numbers
- of texts: substrings, length, parts, concatenation, LIKE, trim, and what a text starts with, ends with or contains
- the parts of a day and of a time

None of them raises, and each means the same in both engines for the types that it is listed for. A property test
compares them. All other expressions are Spark's.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hourline_core.model import Field, Source
from hourline_core.model.expressions import ATTEMPT
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    TOPIC,
    lookup_column,
    visible_name,
)
from hourline_core.sql.literals import identifier, literal

_WHOLE = {"tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT"}
"""Spark's types of whole numbers, the narrowest first, with DuckDB's names."""
_OTHERS = {
    "double": "DOUBLE",
    "float": "FLOAT",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
}
_TYPES = {**_WHOLE, **_OTHERS}
_DECIMAL = re.compile(r"(?=.{1,16}$)\d+\.\d+")
"""A plain number with a point. Up to 15 digits, both engines make the same double of it."""
_BESIDE_DOUBLE = "decimal beside a double"
"""The type of such a number: it is a decimal, unless the other operand is a double."""
_LARGEST_OF_FLOAT = 2**24
"""Up to this one, a float holds each whole number."""
_BITS = {"int": ("BIGINT", 32), "bigint": ("HUGEINT", 64)}
"""By type of whole numbers, a type that holds what comes of their arithmetic, and the bits of it that Spark keeps."""
_ENDS = {exp.StartsWith: "starts_with", exp.EndsWith: "suffix", exp.Contains: "contains"}
_OF_LIKE = {"this", "expression", "negate"}
_TRIMMED = {None: "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_OF_TIME = {exp.Hour: "hour", exp.Minute: "minute"}
_OF_DAY: Mapping[Any, str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "1 + dayofweek",
}
"""DuckDB's week begins with the day 0, Spark's with the day 1."""
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_OWN = {EVENT_TIME: "timestamp", HOUR: "timestamp", TOPIC: "string", PARTITION: "int", OFFSET: "bigint", PLACE: "int"}


class Native(NamedTuple):
    """An expression in DuckDB's SQL, with its Spark type."""

    sql: str
    type: str

    @property
    def typed_sql(self) -> str:
        """It as a value of its type, where DuckDB may have a wider one."""
        return f"({self.sql})::{_TYPES[self.type]}"


class _OnlySparkError(Exception):
    """The expression is not one of those that DuckDB computes with the same results."""


def translate(source: Source, text: str) -> Native | None:
    """``text``, Spark SQL over the events of ``source`` with derived fields, for DuckDB. None: only Spark computes it.
    The columns have Hourline's own names.
    """
    try:
        return _Translation(source).of_text(text)
    except (_OnlySparkError, RecursionError):
        return None


def translate_all(expressions: Mapping[str, tuple[Source, str]]) -> dict[str, str] | None:
    """By column, its expression for DuckDB. Each is given with the source that it is about. None: one of them needs
    Spark.
    """
    native = {name: translate(source, text) for name, (source, text) in expressions.items()}
    found = {name: one.sql for name, one in native.items() if one is not None}
    return found if len(found) == len(native) else None


def translate_field(source: Source, name: str) -> Native | None:
    """The field ``name`` of the events of ``source``, which may be an exploded element. None: only Spark knows its
    type.
    """
    kind = source.type_of(name)
    return Native(identifier(name), Field(type=kind).spark_type) if kind else None


def read_columns(text: str) -> list[str] | None:
    """The names of the columns that ``text``, Spark SQL, reads; of a part of a column, such as ``a.b``, the first name.
    None: it is not in the SQL that is known here.
    """
    try:
        columns = _parse(text).find_all(exp.Column, bfs=False)
        return [column.parts[0].name for column in columns]
    except (_OnlySparkError, RecursionError):
        return None


def _parse(text: str) -> exp.Expression:
    if "\\" in text:  # Its meaning in a text depends on a setting of Spark.
        raise _OnlySparkError
    try:
        # Alone, a column such as `load` or `show` would be a statement.
        select = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except SqlglotError:
        raise _OnlySparkError from None
    clauses = [name for name, part in select.args.items() if part]
    if not isinstance(select, exp.Select) or clauses != ["expressions"] or len(select.expressions) != 1:
        raise _OnlySparkError
    return select.expressions[0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Translation:
    source: Source

    def of_text(self, text: str) -> Native:
        return self.of_value(_parse(text))

    def of_value(self, node: exp.Expression) -> Native:
        """The translation of a node whose value is taken as it is."""
        found = self.of(node)
        if found.type == _BESIDE_DOUBLE:
            raise _OnlySparkError
        return found

    def of(self, node: Any) -> Native:
        """The translation of a node. Raises _OnlySparkError."""
        translate = _NODES.get(type(node))
        if translate is None:
            raise _OnlySparkError
        return translate(self, node)

    def of_type(self, node: exp.Expression, *types: str) -> Native:
        """The translation of a node that must have one of these types."""
        found = self.of(node)
        if found.type not in types:
            raise _OnlySparkError
        return found

    def column(self, node: exp.Column) -> Native:
        if len(node.parts) == 2:
            return self.looked_up(node.parts[0].name, node.parts[1].name)
        if len(node.parts) != 1:
            raise _OnlySparkError  # a part of a struct
        name = node.name
        if name in _OWN:
            return Native(identifier(name), _OWN[name])
        for own in (EVENT_TIME, HOUR):
            if visible_name(own, self.source.field_names) == name.lower():
                return Native(identifier(own), _OWN[own])
        for field in self.source.event_fields:
            if field.lower() == name.lower() and (found := translate_field(self.source, field)):
                return found
        for derived, text in self.source.derived.items():
            if derived.lower() == name.lower():
                found = self.of_text(text)
                return Native(f"({found.sql})", found.type)
        raise _OnlySparkError

    def looked_up(self, lookup: str, column: str) -> Native:
        """A column of the row that an event has in a lookup, which `lookup_columns.py` adds."""
        for name in self.source.lookups:
            for known, of in self.source.lookup_of(name).columns.items():
                if (name.lower(), known.lower()) == (lookup.lower(), column.lower()):
                    return Native(identifier(lookup_column(name, known)), of.spark_type)
        raise _OnlySparkError

    def constant(self, node: exp.Literal) -> Native:
        if node.is_string:
            if not node.this.isascii():
                raise _OnlySparkError
            return Native(literal(node.this), "string")
        if _DECIMAL.fullmatch(node.this):
            return Native(f"{node.this}::DOUBLE", _BESIDE_DOUBLE)
        if not node.this.isdigit() or int(node.this) >= 1 << 31:
            raise _OnlySparkError
        return Native(node.this, "int")

    def truth(self, node: exp.Boolean) -> Native:
        return Native("true" if node.this else "false", "boolean")

    def paren(self, node: exp.Paren) -> Native:
        found = self.of(node.this)
        return Native(f"({found.sql})", found.type)

    def compare(self, node: exp.Binary) -> Native:
        one, other = self.of(node.this), self.of(node.expression)
        _refuse_different([one, other])
        return Native(f"({one.sql} {_OPERATORS[type(node)]} {other.sql})", "boolean")

    def match(self, node: exp.Like) -> Native:
        text, pattern = self.of_type(node.this, "string"), node.expression
        if not isinstance(pattern, exp.Literal) or not node.args.keys() <= _OF_LIKE:
            raise _OnlySparkError
        sign = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return Native(f"({text.sql} {sign} {self.of_type(pattern, 'string').sql})", "boolean")

    def end(self, node: exp.StartsWith | exp.EndsWith | exp.Contains) -> Native:
        text, part = (self.of_type(of, "string") for of in (node.this, node.expression))
        return Native(f"{_ENDS[type(node)]}({text.sql}, {part.sql})", "boolean")

    def connect(self, node: exp.Connector) -> Native:
        one, other = (self.of_type(part, "boolean") for part in (node.this, node.expression))
        return Native(f"({one.sql} {_OPERATORS[type(node)]} {other.sql})", "boolean")

    def negate(self, node: exp.Not) -> Native:
        return Native(f"(NOT {self.of_type(node.this, 'boolean').sql})", "boolean")

    def is_null(self, node: exp.Is) -> Native:
        if not isinstance(node.expression, exp.Null):
            raise _OnlySparkError
        return Native(f"({self.of(node.this).sql} IS NULL)", "boolean")

    def among(self, node: exp.In) -> Native:
        if not node.expressions or any(name not in ("this", "expressions") and of for name, of in node.args.items()):
            raise _OnlySparkError
        one, *others = (self.of(part) for part in (node.this, *node.expressions))
        _refuse_different([one, *others])
        return Native(f"({one.sql} IN ({', '.join(of.sql for of in others)}))", "boolean")

    def between(self, node: exp.Between) -> Native:
        one, low, high = (self.of(node.args[name]) for name in ("this", "low", "high"))
        if node.args.get("symmetric"):
            raise _OnlySparkError
        _refuse_different([one, low, high])
        return Native(f"({one.sql} BETWEEN {low.sql} AND {high.sql})", "boolean")

    def case(self, node: exp.Case) -> Native:
        if node.this is not None:
            raise _OnlySparkError
        conditions = [self.of_type(branch.this, "boolean") for branch in node.args["ifs"]]
        values = [self.of_value(branch.args["true"]) for branch in node.args["ifs"]]
        if (default := node.args.get("default")) is not None:
            values.append(self.of_value(default))
        if len({value.type for value in values}) != 1:
            raise _OnlySparkError
        when = " ".join(f"WHEN {of.sql} THEN {value.sql}" for of, value in zip(conditions, values, strict=False))
        otherwise = f" ELSE {values[-1].sql}" if default is not None else ""
        return Native(f"(CASE {when}{otherwise} END)", values[0].type)

    def coalesce(self, node: exp.Coalesce) -> Native:
        values = [self.of_value(part) for part in (node.this, *node.expressions)]
        if len({value.type for value in values}) != 1:
            raise _OnlySparkError
        return Native(f"coalesce({', '.join(value.sql for value in values)})", values[0].type)

    def minus(self, node: exp.Neg) -> Native:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            number = self.constant(node.this)
        else:
            number = self.of_type(node.this, "double", "float", *_BITS)
            if number.type in _BITS:
                return _wrap_around(Native("0", "int"), "-", number)
        return Native(f"(-{number.sql})", number.type)

    def absolute(self, node: exp.Abs) -> Native:
        number = self.of_type(node.this, "double", "float", *_BITS)
        if number.type not in _BITS:
            return Native(f"abs({number.sql})", number.type)
        opposite = _wrap_around(Native("0", "int"), "-", number)
        return Native(f"(CASE WHEN {number.sql} < 0 THEN {opposite.sql} ELSE {number.sql} END)", number.type)

    def round(self, node: exp.Floor | exp.Ceil) -> Native:
        """A double as the next whole number. What is too large for it is the largest one, as in Java."""
        number = self.of_type(node.this, "double").sql
        if any(name != "this" and of for name, of in node.args.items()):
            raise _OnlySparkError
        rounded = f"{'floor' if isinstance(node, exp.Floor) else 'ceil'}({number})"
        beyond = f"WHEN isnan({number}) THEN 0 WHEN {number} >= 1e18 THEN 9223372036854775807"
        beyond = f"WHEN {number} IS NULL THEN NULL {beyond} ELSE -9223372036854775808"
        return Native(f"coalesce(try_cast({rounded} AS BIGINT), (CASE {beyond} END)::BIGINT)", "bigint")

    def divide(self, node: exp.Div) -> Native:
        """The quotient by a plain number but zero, by which Spark gives null."""
        one, divisor = self.of_type(node.this, "double", *_WHOLE), node.expression
        if not isinstance(divisor, exp.Literal) or divisor.is_string or float(divisor.this) == 0:
            raise _OnlySparkError
        by = self.constant(divisor)
        if by.type == _BESIDE_DOUBLE and one.type != "double":
            raise _OnlySparkError
        return Native(f"({one.sql}::DOUBLE / {by.sql}::DOUBLE)", "double")

    def arithmetic(self, node: exp.Binary) -> Native:
        types = ("double", "float", *_WHOLE, _BESIDE_DOUBLE)
        one, other = (self.of_type(part, *types) for part in (node.this, node.expression))
        if one.type == other.type == "float":
            return Native(f"({one.sql} {_OPERATORS[type(node)]} {other.sql})", "float")
        if one.type in _WHOLE and other.type in _WHOLE:
            return _wrap_around(one, _OPERATORS[type(node)], other)
        if "double" not in (one.type, other.type) or "float" in (one.type, other.type):
            raise _OnlySparkError
        return Native(f"({one.sql}::DOUBLE {_OPERATORS[type(node)]} {other.sql}::DOUBLE)", "double")

    def remainder(self, node: exp.Mod) -> Native:
        one, divisor = self.of_type(node.this, *_WHOLE), node.expression
        if not isinstance(divisor, exp.Literal) or divisor.is_string or int(self.constant(divisor).sql) == 0:
            raise _OnlySparkError
        wide = _wider(one.type, "int")
        return Native(f"({one.sql}::{_TYPES[wide]} % {divisor.this})", wide)

    def substring(self, node: exp.Substring) -> Native:
        text = self.of_type(node.this, "string")
        numbers = [node.args.get(name) for name in ("start", "length") if node.args.get(name) is not None]
        if not all(isinstance(number, exp.Literal) and not number.is_string for number in numbers):
            raise _OnlySparkError
        bounds = [self.constant(number).sql for number in numbers if isinstance(number, exp.Literal)]
        if not bounds or int(bounds[0]) < 1:
            raise _OnlySparkError
        return Native(f"substring({', '.join([text.sql, *bounds])})", "string")

    def trim(self, node: exp.Trim) -> Native:
        """Spark takes spaces alone from a text, and DuckDB those that it is told."""
        if node.args.get("expression") is not None or node.args.get("position") not in _TRIMMED:
            raise _OnlySparkError
        text = self.of_type(node.this, "string").sql
        return Native(f"{_TRIMMED[node.args.get('position')]}({text}, ' ')", "string")

    def length(self, node: exp.Length) -> Native:
        return Native(f"length({self.of_type(node.this, 'string').sql})::INTEGER", "int")

    def split_part(self, node: exp.SplitPart) -> Native:
        text, delimiter, number = node.this, node.args["delimiter"], node.args["part_index"]
        if not isinstance(delimiter, exp.Literal) or not delimiter.is_string or not delimiter.this:
            raise _OnlySparkError
        if not isinstance(number, exp.Literal) or number.is_string or int(self.constant(number).sql) == 0:
            raise _OnlySparkError
        parts = (self.of_type(text, "string").sql, self.constant(delimiter).sql, number.this)
        return Native(f"split_part({', '.join(parts)})", "string")

    def concatenate(self, node: exp.Concat | exp.DPipe) -> Native:
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        texts = [self.of_type(part, "string", *_WHOLE) for part in parts]
        return Native(f"({' || '.join(f'{text.sql}::VARCHAR' for text in texts)})", "string")

    def cast(self, node: exp.Cast | exp.TryCast) -> Native:
        to, found = node.to.sql(dialect="spark").lower(), self.of(node.this)
        lossless = {
            "double": ("float", _BESIDE_DOUBLE, *_WHOLE),
            "bigint": tuple(_WHOLE),
            "string": ("string", *_WHOLE),
            "decimal(19, 0)": tuple(_WHOLE),
            "date": ("timestamp",),
        }
        if to == found.type:
            return found
        if to == "float" and found.sql.isdigit() and int(found.sql) <= _LARGEST_OF_FLOAT:
            return Native(f"({found.sql}::FLOAT)", to)
        if found.type not in lossless.get(to, ()):
            raise _OnlySparkError
        return Native(f"({found.sql}::{_TYPES.get(to, 'DECIMAL(19, 0)')})", to)

    def choose(self, node: exp.If) -> Native:
        condition, default = node.this, node.args.get("false")
        if isinstance(condition, exp.Anonymous) and condition.name.lower() == "is_valid_utf8":
            # The text that `distinct` counts: no text of an event is invalid UTF-8.
            self.of_type(condition.expressions[0], "string")
            return self.of_type(node.args["true"], "string")
        if default is None:
            raise _OnlySparkError
        one, other = self.of_value(node.args["true"]), self.of_value(default)
        if one.type != other.type:
            raise _OnlySparkError
        when = self.of_type(condition, "boolean").sql
        return Native(f"(CASE WHEN {when} THEN {one.sql} ELSE {other.sql} END)", one.type)

    def null_if(self, node: exp.Nullif) -> Native:
        one, other = self.of_value(node.this), self.of_value(node.expression)
        _refuse_different([one, other])
        if one.type != other.type:
            raise _OnlySparkError
        return Native(f"(CASE WHEN {one.sql} = {other.sql} THEN NULL ELSE {one.sql} END)", one.type)

    def part_of_time(self, node: exp.Hour | exp.Minute) -> Native:
        return Native(f"{_OF_TIME[type(node)]}({self.of_type(node.this, 'timestamp').sql})::INTEGER", "int")

    def part_of_day(self, node: exp.Expression) -> Native:
        day = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        return Native(f"({_OF_DAY[type(node)]}({self.of_type(day, 'timestamp', 'date').sql}))::INTEGER", "int")

    def call(self, node: exp.Anonymous) -> Native:
        if node.name.lower() == ATTEMPT:  # Nothing that is translated raises.
            return self.of(node.expressions[0])
        if node.name.lower() == "make_valid_utf8":
            return self.of_type(node.expressions[0], "string")
        if node.name.lower() == "timestamp_micros":
            return self.pane(node.expressions[0])
        raise _OnlySparkError

    def pane(self, node: exp.Expression) -> Native:
        """The start of a pane, as ``assign_pane`` writes it."""
        micros, rest = (node.args.get(name) for name in ("this", "expression"))
        if (
            not isinstance(node, exp.Sub)
            or not isinstance(micros, exp.UnixMicros)
            or not isinstance(rest, exp.Anonymous)
            or rest.name.lower() != "pmod"
            or rest.expressions[0] != micros
            or not isinstance(rest.expressions[1], exp.Literal)
        ):
            raise _OnlySparkError
        time, size = self.of_type(micros.this, "timestamp"), rest.expressions[1].this
        since = f"epoch_us({time.sql})"
        return Native(f"make_timestamptz({since} - (({since} % {size}) + {size}) % {size})", "timestamp")


def _refuse_different(compared: Iterable[Native]) -> None:
    """Raise unless both engines compare values of these types as they are. For doubles, NaN is the largest number in
    both.
    """
    types = {of.type for of in compared}
    kinds = {"number" if of in ("double", *_WHOLE) else of for of in types}
    if types == {_BESIDE_DOUBLE, "double"}:
        return
    if len(kinds) != 1 or not kinds <= {"number", "string", "boolean", "date", "timestamp"}:
        raise _OnlySparkError


def _wrap_around(one: Native, operator: str, other: Native) -> Native:
    """The result over whole numbers. Of one that is too large for their type, Spark keeps the last bits."""
    of = _wider(one.type, other.type)
    if of not in _BITS:
        raise _OnlySparkError
    wide, bits = _BITS[of]
    half, most = f"{1 << (bits - 1)}::{wide}", f"{(1 << bits) - 1}::{wide}"
    result = f"{one.sql}::{wide} {operator} {other.sql}::{wide}"
    return Native(f"(((({result}) + {half}) & {most}) - {half})::{_TYPES[of]}", of)


def _wider(one: str, other: str) -> str:
    names = list(_WHOLE)
    return max(one, other, key=names.index)


_OPERATORS: Mapping[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
}

_NODES: Mapping[Any, Callable[..., Native]] = {
    exp.Column: _Translation.column,
    exp.Literal: _Translation.constant,
    exp.Boolean: _Translation.truth,
    exp.Paren: _Translation.paren,
    **dict.fromkeys(_COMPARED, _Translation.compare),
    **dict.fromkeys((exp.And, exp.Or), _Translation.connect),
    exp.Not: _Translation.negate,
    exp.Is: _Translation.is_null,
    exp.In: _Translation.among,
    exp.Between: _Translation.between,
    exp.Case: _Translation.case,
    exp.Coalesce: _Translation.coalesce,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _Translation.arithmetic),
    exp.Neg: _Translation.minus,
    exp.Div: _Translation.divide,
    exp.Mod: _Translation.remainder,
    exp.Substring: _Translation.substring,
    exp.Length: _Translation.length,
    exp.Trim: _Translation.trim,
    exp.Like: _Translation.match,
    **dict.fromkeys(_ENDS, _Translation.end),
    exp.Abs: _Translation.absolute,
    **dict.fromkeys((exp.Floor, exp.Ceil), _Translation.round),
    exp.Nullif: _Translation.null_if,
    **dict.fromkeys(_OF_TIME, _Translation.part_of_time),
    **dict.fromkeys(_OF_DAY, _Translation.part_of_day),
    exp.SplitPart: _Translation.split_part,
    **dict.fromkeys((exp.Concat, exp.DPipe), _Translation.concatenate),
    **dict.fromkeys((exp.Cast, exp.TryCast), _Translation.cast),
    exp.If: _Translation.choose,
    exp.Anonymous: _Translation.call,
}
