"""Expressions over one event, parsed by sqlglot to look for what a declaration cannot have."""

from collections.abc import Collection, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from hourline_core.model.measure_text import COUNT_IF, KINDS, LARGEST_VALUES, MEDIAN, NOT_MERGEABLE, OTHER_WORDS
from hourline_core.model.sql_form.statement import Part, SqlMistake
from hourline_core.model.sql_form.time_windows import WINDOW_FUNCTION

_UNKNOWN_TO_SQLGLOT = ("try_sum", "try_avg", "count_min_sketch", "rownumber")
_AGGREGATES = {*KINDS, COUNT_IF, MEDIAN, *OTHER_WORDS, *NOT_MERGEABLE, *LARGEST_VALUES, *_UNKNOWN_TO_SQLGLOT}
"""Aggregates by their names in a declaration and in Spark."""

_REFUSED: dict[type[exp.Expr], str] = {
    exp.WithinGroup: "but the events of an hour are never sorted: QUANTILE(x, 0.5) is a mergeable estimate",
    exp.Window: "but OVER reads other rows, which may still change: use a window function where you query, with "
    "`hourline query`",
    exp.Query: "but an expression reads one event, not a subquery: declare what it reads as a field of the source, or "
    "combine results where you query",
    exp.Ordered: "but the events of an hour are never sorted: leave ORDER BY out",
}
"""Parts of an expression that no declaration can have, each with the reason and what to do instead."""


def parse_expression(part: Part) -> exp.Expr:
    """The tree of one expression. Raises SqlMistake for what is no expression, or reads more than one event."""
    try:
        select = sqlglot.parse_one(f"SELECT {part.text}", dialect="spark")
    except (ParseError, RecursionError):
        raise SqlMistake(part.line, f"got '{part.text}', which is no expression of Spark SQL") from None
    if not isinstance(select, exp.Select) or [name for name, value in select.args.items() if value] != ["expressions"]:
        raise SqlMistake(part.line, f"got '{part.text}', which is no expression of Spark SQL")
    tree: exp.Expr = select.expressions[0]
    for kind, advice in _REFUSED.items():
        if tree.find(kind):
            raise SqlMistake(part.line, f"got '{part.text}', {advice}")
    for function in tree.find_all(exp.Anonymous):
        if WINDOW_FUNCTION.fullmatch(function.name):
            raise SqlMistake(
                part.line, f"got '{part.text}', allowed is {function.name.upper()}(…) alone, as an item of its own"
            )
    if tree.is_star:
        raise SqlMistake(part.line, f"got '{part.text}', allowed are the columns by their names")
    return tree


def find_aggregates(tree: exp.Expr, of_user: Collection[str]) -> Iterator[exp.Expr]:
    """The aggregates in an expression. ``of_user`` are the names of user-defined measures."""
    for node in tree.find_all(exp.Func, exp.Any):
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        if isinstance(node, exp.AggFunc) or name.lower() in _AGGREGATES or name.lower() in of_user:
            yield node


def read_condition(part: Part, of_user: Collection[str]) -> str:
    """The text of a condition over one event. Raises SqlMistake for what is none."""
    tree = parse_expression(part)
    if isinstance(tree, exp.Alias):
        raise SqlMistake(part.line, f"got '{part.text}', which is no expression of Spark SQL")
    if any(find_aggregates(tree, of_user)):
        raise SqlMistake(
            part.line,
            f"got the condition '{part.text}' with an aggregate, allowed is one over a single event: "
            "choose among results where you query, with `hourline query`",
        )
    return part.text


def same_expression(one: Part, other: Part) -> bool:
    """Whether two parts have the same tokens. Case counts only inside quotes, and a name may be in backquotes."""
    return _tokens(one) == _tokens(other)


def _tokens(part: Part) -> list[str]:
    return [token.text if part.sql[token.start] == "'" else token.text.lower() for token in part.tokens]
