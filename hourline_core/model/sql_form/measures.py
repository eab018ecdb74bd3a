"""The measures that aggregates mean."""

from collections.abc import Collection

from sqlglot import TokenType, exp

from hourline_core.model.measure_text import SYNONYMS
from hourline_core.model.sql_form.expressions import find_aggregates, parse_expression
from hourline_core.model.sql_form.statement import Part, SqlMistake

_SAME_IF_DISTINCT = ("min", "max", "any", "every")


def read_measure(part: Part, of_user: Collection[str]) -> str | None:
    """The measure that an aggregate means, as a declaration writes it. None for a part without an aggregate.

    Raises SqlMistake for what a declaration cannot say.
    """
    tree = parse_expression(part)
    aggregates = list(find_aggregates(tree, of_user))
    if not aggregates:
        return None
    aggregate = tree.this if isinstance(tree, exp.Filter) else tree
    if aggregate not in aggregates:
        raise SqlMistake(
            part.line, f"got '{part.text}', allowed is an aggregate alone: {_select_each(tree, aggregates)}"
        )
    if len(aggregates) > 1:
        raise SqlMistake(
            part.line, f"got '{part.text}', an aggregate of an aggregate, allowed is one over an expression of an event"
        )
    call, condition = _split_filter(part)
    return _translate(call, aggregate, condition)


def _select_each(tree: exp.Expr, aggregates: list[exp.Expr]) -> str:
    """What to select in place of an expression over ``aggregates``."""
    parts = [each.sql("spark") for each in aggregates]
    if isinstance(tree, exp.Div) and {tree.this, tree.expression} <= set(aggregates):
        return f"select {tree.this.sql('spark')} AS a, {tree.expression.sql('spark')} AS b and RATIO(a, b) AS a_name"
    return f"select {' and '.join(sorted(set(parts)))}, and compute the rest where you query"


def _split_filter(part: Part) -> tuple[Part, str | None]:
    """The call of the aggregate, and the condition of ``FILTER (WHERE …)``."""
    for index, token in part.outer():
        if token.token_type is TokenType.FILTER:
            inside = part.slice(index + 2, -1)
            if not inside.tokens or inside.tokens[0].token_type is not TokenType.WHERE:
                raise SqlMistake(part.line, f"got '{part.text}', allowed is FILTER (WHERE condition)")
            return part.slice(0, index), inside.slice(1).text
    return part, None


def _translate(part: Part, aggregate: exp.Expr, condition: str | None) -> str:
    call = part.call()
    if call is None:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is an aggregate alone, such as SUM(x)")
    name, arguments = SYNONYMS.get(call[0].lower(), call[0].lower()), call[1]
    distinct = bool(arguments.tokens) and arguments.tokens[0].token_type is TokenType.DISTINCT
    argument = arguments.slice(1).text if distinct else arguments.text
    if isinstance(aggregate, exp.Count):
        if len(arguments.split()) != 1 or (distinct and argument == "*"):
            raise SqlMistake(part.line, f"got '{part.text}', allowed is COUNT with one argument, such as COUNT(*)")
        if distinct:
            return _write("distinct", argument, condition)
        return _write("count", "", _both(_not_null(aggregate, arguments), condition))
    if distinct and name not in _SAME_IF_DISTINCT:
        raise SqlMistake(
            part.line,
            f"got '{part.text}', which cannot be merged: two parts may share values; COUNT(DISTINCT {argument}) can",
        )
    return _write(name, argument, condition)


def _not_null(count: exp.Count, argument: Part) -> str | None:
    """The condition under which ``COUNT(argument)`` counts an event. None: always."""
    if isinstance(count.this, exp.Literal | exp.Star):
        return None
    return f"{argument.text} IS NOT NULL" if len(argument.tokens) == 1 else f"({argument.text}) IS NOT NULL"


def _both(one: str | None, other: str | None) -> str | None:
    return f"({one}) AND ({other})" if one and other else one or other


def _write(name: str, argument: str, condition: str | None) -> str:
    call = f"{name}({argument})" if argument else name
    return call if condition is None else f"{call} where {condition}"
