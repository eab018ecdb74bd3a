"""``FROM source``, and Flink's ``FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(time), size))``."""

from sqlglot import TokenType

from hourline_core.model.sql_form.statement import Part, SqlMistake
from hourline_core.model.sql_form.time_windows import is_window_function


def split_from(part: Part) -> tuple[Part, Part | None]:
    """The source's name, and the call of a window function around it, if there is one. Raises SqlMistake."""
    table = part.call()
    function = table[1] if table and table[0] == "TABLE" else part
    call = function.call() if function.tokens else None
    if call and call[0] == "SESSION":
        raise SqlMistake(
            part.line,
            f"got '{part.text}', allowed is GROUP BY …, SESSION(event_time, gap): a session has the events of one "
            "group",
        )
    if call and is_window_function(function):
        source = next(iter(call[1].split()), part)
        if len(source.tokens) == 2 and source.tokens[0].text.upper() == "TABLE":
            return source.slice(1), function
        raise SqlMistake(
            part.line, f"got '{part.text}', allowed is TABLE(TUMBLE(TABLE a_source, DESCRIPTOR(a_time), size))"
        )
    types = [token.token_type for token in part.tokens]
    words = {token.text.upper() for token in part.tokens}
    if "JOIN" in words or TokenType.COMMA in types:
        raise SqlMistake(
            part.line,
            f"got '{part.text}', but a metric reads one source: read several topics with one source, or join results "
            "where you query, with `hourline query`",
        )
    if TokenType.SELECT in types:
        raise SqlMistake(
            part.line,
            "got a subquery after FROM, allowed is a source: declare its condition and fields in a source, "
            "with `branch`, `where` and `derived`",
        )
    if len(part.tokens) > 1:
        raise SqlMistake(part.line, f"got '{part.text}', allowed is the name of a source without an alias")
    return part, None
