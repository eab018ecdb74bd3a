"""The items of SELECT: dimensions, measures and bounds of the window.

sqlglot parses each item to tell them apart, and to find what cannot be merged. The declaration gets the text.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import TokenType, exp

from hourline_core.model.sql_form.expressions import parse_expression
from hourline_core.model.sql_form.measures import read_measure
from hourline_core.model.sql_form.statement import Part, SqlMistake
from hourline_core.model.sql_form.time_windows import BOUNDS, is_window_function


@dataclass(frozen=True)
class SelectItem:
    """An item of SELECT. It is a measure, the window or one of its bounds, or else a dimension."""

    expression: Part
    name: str | None
    """What follows AS, or a plain column's own name. None if it has neither."""
    measure: str | None = None
    """The measure that it means, as a declaration writes it."""
    window: bool = False

    @property
    def is_dimension(self) -> bool:
        """Whether it is a dimension."""
        return not self.window and self.measure is None


def read_item(part: Part, fields: Collection[str], of_user: Collection[str]) -> SelectItem:
    """One item of SELECT over a source with these ``fields`` (in lower case). ``of_user`` are the names of user-defined
    measures. Raises SqlMistake for what no declaration can say.
    """
    if part.tokens[0].token_type in (TokenType.DISTINCT, TokenType.ALL):
        word = part.tokens[0].text.upper()
        raise SqlMistake(part.line, f"got SELECT {word}, allowed is SELECT: GROUP BY makes the rows distinct")
    if is_window_function(part) or is_bound(part, fields):
        return SelectItem(part, None, window=True)
    expression, name = _split_name(part)
    if is_window_function(expression) or is_bound(expression, fields):
        raise SqlMistake(
            part.line, f"got the name '{name}' for the window, allowed is none: a result names its window itself"
        )
    return SelectItem(expression, name, read_measure(expression, of_user))


def is_bound(part: Part, fields: Collection[str]) -> bool:
    """Whether an item is a bound of the window, and no field of the source."""
    return part.text.lower() in BOUNDS and part.text.lower() not in fields


def _split_name(part: Part) -> tuple[Part, str | None]:
    outer = [token for _, token in part.outer()]
    if len(outer) > 2 and outer[-2].token_type is TokenType.ALIAS:
        return part.slice(0, -2), outer[-1].text
    if len(outer) == 1:
        return part, outer[0].text
    if isinstance(parse_expression(part), exp.Alias):  # without AS
        return part.slice(0, -1), outer[-1].text
    return part, None
