"""Refuses expressions that may give another value for the same event: the stream and a recompute would differ.

An expression passes by what is known to repeat. Spark parses it. Each function and each other part of the parsed
expression must be in a list. Then Spark's analyzer shows which texts it takes for times, such as 'today'.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.resolve import UnresolvedError, shorten_error
from hourline_core.compute.spark_functions import (
    AGGREGATES,
    CLOCK_WITHOUT_ARGUMENTS,
    REFUSED,
    REPEATABLE,
    WINDOW_FUNCTIONS,
    WITHOUT_BRACKETS,
)
from hourline_core.errors import did_you_mean
from hourline_core.model.yaml_files import KeyPath

_SYNTAX = """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Collate Concat CreateNamedStruct
    Divide EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull LambdaFunction
    LessThan LessThanOrEqual Like LikeAll LikeAny Literal Lower Multiply NamePlaceholder$ NamedArgumentExpression Not
    NotLikeAll NotLikeAny Or Overlay RLike Remainder SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned
    StringLocate StringTrim StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus
    UnaryPositive UnresolvedAttribute UnresolvedCollation UnresolvedExtractValue UnresolvedFunction
    UnresolvedNamedLambdaVariable
"""
"""The classes that Spark's parser makes of an expression over one event."""

_ONE_EVENT = "allowed is an expression over one event, without windows and queries"
_OTHER_SYNTAX = {
    **dict.fromkeys(("WindowExpression", "UnresolvedWindowExpression"), f"got OVER, {_ONE_EVENT}"),
    **dict.fromkeys(("InSubquery", "ListQuery", "ScalarSubquery", "Exists"), f"got SELECT, {_ONE_EVENT}"),
    **dict.fromkeys(
        ("UnresolvedStar", "UnresolvedStarExceptOrReplace"),
        "'*' stands for all columns, Hourline's own too, which differ between stream and recompute; name the fields",
    ),
}
_AGGREGATE = "AggregateExpression"
_MOVING = re.compile(r"\s*(now|today|yesterday|tomorrow)(?![A-Za-z]).*", re.IGNORECASE | re.DOTALL)
"""What Spark takes for a time that moves, alone or before a zone."""
_TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
_TYPED_LITERAL = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME")


def refuse_unrepeatable(spark: SparkSession, path: KeyPath, expression: str, columns: Collection[str]) -> None:
    """Raise UnresolvedError with ``path`` unless all parts of ``expression`` are known to repeat. ``columns`` are those
    that it may name: Spark takes some names of functions without brackets, such as ``current_date``.
    """
    if "${" in expression:  # which Spark would replace by one of its settings, or of the machine
        raise UnresolvedError(path, "got '${', which Spark replaces by a setting; write the value itself")
    try:
        parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(expression)
    except PySparkException as error:
        raise UnresolvedError(path, shorten_error(error)) from error
    names = {name.casefold() for name in columns}
    parts = list(_parts(json.loads(parsed.toJSON())))
    for part in parts:
        _refuse_part(path, expression, part, names)
    if any(_class_of(part) == "Literal" and part.get("dataType") in _TIME_TYPES for part in parts):
        for word, text in _typed_literals(spark, expression):
            _refuse_moving(path, f"{word.lower()} {text!r}", text)


def refuse_moving_times(events: DataFrame, expressions: Mapping[KeyPath, str]) -> None:
    """Raise the first of ``find_moving_times``, if there is one."""
    for mistake in find_moving_times(events, expressions):
        raise mistake


def find_moving_times(events: DataFrame, expressions: Mapping[KeyPath, str]) -> Iterator[UnresolvedError]:
    """A mistake for each of ``expressions`` over ``events`` in which Spark takes a constant text for a time that moves,
    such as 'today' beside a date. Spark can resolve all of them.
    """
    if not expressions or not _has_special_time(events, list(expressions.values())):
        return
    for path, expression in expressions.items():
        try:
            for text in _constant_times(_analyze(events, [expression]).expressions()):
                _refuse_moving(path, repr(text), text)
        except UnresolvedError as mistake:
            yield mistake


def _refuse_moving(path: KeyPath, shown: str, text: str) -> None:
    if moving := _MOVING.fullmatch(text):
        raise UnresolvedError(
            path,
            f"{shown} is a time that moves with the clock ({moving[1].lower()}), so a recompute would differ from the "
            "stream; use a time of the event, or write the time itself",
        )


def _refuse_part(path: KeyPath, expression: str, part: dict[str, Any], columns: Collection[str]) -> None:
    kind = _class_of(part)
    if kind == "UnresolvedFunction":
        _refuse_function(path, expression, _names(part), is_empty=not part["arguments"])
    elif kind == "UnresolvedAttribute":
        (*_, name) = names = _names(part)
        if len(names) == 1 and name in WITHOUT_BRACKETS and name not in columns:
            raise UnresolvedError(path, f"'{name}' {REFUSED[name]}")
    elif kind == _AGGREGATE:
        _refuse_aggregate(path, expression)
    elif message := _OTHER_SYNTAX.get(kind):
        raise UnresolvedError(path, message)
    elif kind not in _SYNTAX.split():
        raise UnresolvedError(
            path, f"got Spark's {kind}, which is not known to give the same value each time; use functions of Spark SQL"
        )


def _refuse_function(path: KeyPath, expression: str, names: list[str], *, is_empty: bool) -> None:
    (*within, name) = names
    if within in ([], ["builtin"], ["system", "builtin"]):
        reason = REFUSED.get(name) or (is_empty and CLOCK_WITHOUT_ARGUMENTS.get(name))
        if reason:
            raise UnresolvedError(path, f"'{name}' {reason}")
        if name in AGGREGATES:
            _refuse_aggregate(path, expression)
        if name in WINDOW_FUNCTIONS:
            raise UnresolvedError(path, f"got the window function '{name}', {_ONE_EVENT}")
        if name in REPEATABLE:
            return
    near = did_you_mean(name, REPEATABLE)
    raise UnresolvedError(
        path,
        f"got '{'.'.join(names)}', allowed are the functions of Spark SQL that give the same value each time"
        f"{near if 'did you mean' in near else ''}",
    )


def _refuse_aggregate(path: KeyPath, expression: str) -> None:
    raise UnresolvedError(path, f"'{expression}' is about several events, allowed is an expression over one event")


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """The nodes of Spark's JSON of an expression, with those inside of its fields. An outer one comes first."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _parts(branch)


def _class_of(part: dict[str, Any]) -> str:
    return str(part["class"]).rpartition(".")[2]


def _names(part: dict[str, Any]) -> list[str]:
    return [name.strip().casefold() for name in str(part["nameParts"])[1:-1].split(",")]


def _typed_literals(spark: SparkSession, expression: str) -> Iterator[tuple[str, str]]:
    """The typed literals of times, such as ``date'today'``: the word, and the text. The parser keeps only the value."""
    jvm: Any = spark._jvm
    parser = spark._jsparkSession.sessionState().sqlParser()
    upper = jvm.org.apache.spark.sql.catalyst.parser.UpperCaseCharStream(
        jvm.org.antlr.v4.runtime.CharStreams.fromString(expression)
    )
    found = jvm.org.apache.spark.sql.catalyst.parser.SqlBaseLexer(upper).getAllTokens()
    tokens = [token.getText() for token in found if token.getChannel() == 0]
    for word, text in pairwise(tokens):
        if word.upper() in _TYPED_LITERAL and text.endswith(("'", '"')):
            yield word, str(parser.parseExpression(text).eval(None))


def _has_special_time(events: DataFrame, expressions: list[str]) -> bool:
    """Whether Spark takes a constant text for a time without digits: one that moves, or 'epoch'."""
    plan = _analyze(events, expressions)
    return not _optimizer_rule(events, "SpecialDatetimeValues").apply(plan).equals(plan)


def _analyze(events: DataFrame, expressions: list[str]) -> Any:
    """Java's plan that selects ``expressions``, in which ``to_date('today')`` is a cast."""
    columns = [F.expr(expression).alias(str(number)) for number, expression in enumerate(expressions)]
    analyzed = events.select(*columns)._jdf.queryExecution().analyzed()
    return _optimizer_rule(events, "ReplaceExpressions").apply(analyzed)


def _optimizer_rule(events: DataFrame, name: str) -> Any:
    jvm: Any = events.sparkSession._jvm
    return getattr(getattr(jvm.org.apache.spark.sql.catalyst.optimizer, f"{name}$"), "MODULE$")


def _constant_times(expressions: Any) -> Iterator[str]:
    """The constant texts that are cast to a time, within expressions of Java."""
    for place in range(expressions.size()):
        expression = expressions.apply(place)
        if expression.getClass().getSimpleName() == "Cast" and expression.dataType().typeName() in _TIME_TYPES:
            child = expression.child()
            if child.foldable() and child.dataType().typeName().startswith("string"):
                yield str(child.eval(None))
        yield from _constant_times(expression.children())
