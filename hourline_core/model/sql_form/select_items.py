"""The items of SELECT: dimensions, measures and bounds of the window.

sqlglot parses each item to tell them apart, and to find what cannot be merged. The declaration gets the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError

from hourline_core.model.measure_text import COUNT_IF, KINDS, NOT_MERGEABLE, OTHER_WORDS, SYNONYMS
from hourline_core.model.sql_form.statement import Part, SqlMistake
from hourline_core.model.sql_form.time_windows import BOUNDS, is_window

_AGGREGATES = {*KINDS, COUNT_IF, *OTHER_WORDS, *NOT_MERGEABLE}
"""Aggregates by their names in a declaration. sqlglot does not know all of them."""


@dataclass(frozen=True)
class SelectItem:
    """An item of SELECT. It is a measure, a bound of the window, or else a dimension."""

    expression: Part
    name: str | None
    """What follows AS, or a plain column's own name. None if it has neither."""
    measure: str | None = None
    """The measure that it means, as a declaration writes it."""
    window: bool = False


def read_item(part: Part) -> SelectItem:
    """One item of SELECT. Raises SqlMistake for what no declaration can say."""
    if is_window(part):
        return SelectItem(part, None, window=True)
    if part.tokens[0].token_type is TokenType.DISTINCT:
        raise SqlMistake(part.line, "got SELECT DISTINCT, allowed is SELECT: GROUP BY makes the rows distinct")
    expression, name = _split_name(part)
    if not is_window(expression):
        return SelectItem(expression, name, read_measure(expression))
    if name is not None and name.lower() in BOUNDS:
        return SelectItem(expression, name, window=True)
    raise SqlMistake(
        part.line,
        f"got the name '{name}' for the window, allowed is none: its bounds are window_start and window_end",
    )


def _split_name(part: Part) -> tuple[Part, str | None]:
    outer = [token for _, token in part.outer()]
    if len(outer) > 2 and outer[-2].token_type is TokenType.ALIAS:
        return part.slice(0, -2), outer[-1].text
    if len(outer) == 1:
        return part, outer[0].text
    if isinstance(parse(part), exp.Alias):  # without AS
        return part.slice(0, -1), outer[-1].text
    return part, None


def parse(part: Part) -> exp.Expr:
    """The tree of one expression. Raises SqlMistake for what is no expression, or reads more than one event."""
    try:
        tree = sqlglot.parse_one(part.text, dialect="spark")
    except ParseError as error:
        problem = error.errors[0]["description"] if error.errors else "it has no end"
        raise SqlMistake(part.line, f"got '{part.text}', which cannot be parsed: {problem}") from None
    if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
        raise SqlMistake(part.line, f"got '{part.text}', allowed are the columns by their names")
    if tree.find(exp.Window):
        raise SqlMistake(
            part.line,
            f"got '{part.text}', but OVER reads other rows, which may still change: "
            "use a window function where you query, with `hourline query`",
        )
    if tree.find(exp.Query):
        raise SqlMistake(
            part.line,
            f"got '{part.text}', but an expression reads one event, not a subquery: "
            "declare what it reads as a field of the source, or combine results where you query",
        )
    return tree


def read_condition(part: Part) -> str:
    """The text of a condition over one event. Raises SqlMistake if it has an aggregate."""
    if any(_find_aggregates(parse(part))):
        raise SqlMistake(
            part.line,
            f"got the condition '{part.text}' with an aggregate, allowed is one over a single event: "
            "choose among results where you query, with `hourline query`",
        )
    return part.text


def same_expression(one: Part, other: Part) -> bool:
    """Whether two parts have the same meaning. Case and spaces count only inside quotes."""
    return _normalize(one) == _normalize(other)


def _normalize(part: Part) -> str:
    return parse(part).sql(dialect="spark", normalize=True, normalize_functions="upper", comments=False)


def read_measure(part: Part) -> str | None:
    """The measure that an aggregate means, as a declaration writes it. None for a part without an aggregate.

    Raises SqlMistake for what cannot be merged from partial results.
    """
    tree = parse(part)
    aggregates = list(_find_aggregates(tree))
    if not aggregates:
        return None
    aggregate = tree.this if isinstance(tree, exp.Filter) else tree
    if aggregate not in aggregates:
        parts = sorted({each.sql("spark") for each in aggregates})
        raise SqlMistake(
            part.line,
            f"got '{part.text}', an expression over aggregates, which cannot be merged; the aggregates can: "
            f"select {' and '.join(parts)}, and compute the rest where you query",
        )
    if len(aggregates) > 1:
        raise SqlMistake(
            part.line, f"got '{part.text}', an aggregate of an aggregate, allowed is one over an expression of an event"
        )
    return _translate(*_split_filter(part), aggregate)


def _find_aggregates(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in tree.find_all(exp.Func, exp.Any):
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        if isinstance(node, exp.AggFunc) or name.lower() in _AGGREGATES:
            yield node


def _split_filter(part: Part) -> tuple[Part, Part | None]:
    """The call of the aggregate, and the condition of ``FILTER (WHERE …)``."""
    for index, token in part.outer():
        if token.token_type is TokenType.FILTER:
            opening = index + 1
            return part.slice(0, index), part.slice(opening + 2, -1)
    return part, None


def _translate(part: Part, condition: Part | None, aggregate: exp.Expr) -> str:
    call = part.call()
    if call is None:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is an aggregate alone, such as SUM(x)")
    name, arguments = SYNONYMS.get(call[0].lower(), call[0].lower()), call[1]
    argument = arguments.text
    conditions = [condition.text] if condition else []
    if arguments.tokens and arguments.tokens[0].token_type is TokenType.DISTINCT:
        argument = arguments.slice(1).text
        if not isinstance(aggregate, exp.Count):
            raise SqlMistake(
                part.line,
                f"got '{part.text}', which cannot be merged: two parts may share values; "
                f"COUNT(DISTINCT {argument}) can",
            )
        name = "distinct"
    elif isinstance(aggregate, exp.Count):
        if not isinstance(aggregate.this, exp.Literal | exp.Star):
            conditions.append(f"{argument} IS NOT NULL")
        argument = ""
    return _write_measure(name, argument, conditions)


def _write_measure(name: str, argument: str, conditions: list[str]) -> str:
    call = f"{name}({argument})" if argument else name
    if not conditions:
        return call
    condition = conditions[0] if len(conditions) == 1 else " AND ".join(f"({each})" for each in conditions)
    return f"{call} where {condition}"
