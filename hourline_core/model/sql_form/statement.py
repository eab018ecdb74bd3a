"""One SELECT statement, split into its clauses.

sqlglot's tokenizer of Spark's dialect finds the parts. The text of each part is kept as written, since both layers give
it to Spark. Comments are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)

_CLAUSES = (TokenType.SELECT, TokenType.FROM, TokenType.WINDOW, TokenType.WHERE, TokenType.GROUP_BY)
"""The clauses of a statement, in their order. WINDOW is ksqlDB's."""

_FIRST_ROWS = "the first rows of a part may not be those of the whole: use it where you query, with `hourline query`"
_NO_ORDER = "the rows of a table have no order: use ORDER BY where you query, with `hourline query`"
_TWO_METRICS = "a metric is one SELECT: declare two metrics, and combine their results where you query"
_REFUSED: Mapping[TokenType, str] = {
    TokenType.HAVING: "the next event may change whether a result fulfils it: use WHERE where you query, "
    "with `hourline query`",
    TokenType.QUALIFY: "a rank in a part does not say the rank in the whole: use it where you query, "
    "with `hourline query`",
    TokenType.ORDER_BY: _NO_ORDER,
    TokenType.SORT_BY: _NO_ORDER,
    TokenType.LIMIT: _FIRST_ROWS,
    TokenType.OFFSET: _FIRST_ROWS,
    TokenType.FETCH: _FIRST_ROWS,
    TokenType.UNION: _TWO_METRICS,
    TokenType.EXCEPT: _TWO_METRICS,
    TokenType.INTERSECT: _TWO_METRICS,
    TokenType.LATERAL: "a metric aggregates the events of its source: declare `explode` in the source",
}
"""Clauses that no declaration can have, each with the reason and what to do instead."""


class SqlMistake(Exception):  # noqa: N818 (it is caught where it is listed)
    """A part of a statement that cannot be read as a declaration. ``line`` is counted from 1 in the statement."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


@dataclass(frozen=True)
class Part:
    """Successive tokens of a statement."""

    sql: str
    tokens: tuple[Token, ...]

    @property
    def line(self) -> int:
        """The line of its first token, counted from 1 in the statement."""
        return self.tokens[0].line

    @property
    def text(self) -> str:
        """The tokens as written, with one space where there was space or a comment."""
        text = ""
        for index, token in enumerate(self.tokens):
            if index and token.start > self.tokens[index - 1].end + 1:
                text += " "
            text += self.sql[token.start : token.end + 1]
        return text

    def slice(self, start: int, end: int | None = None) -> "Part":
        """The tokens from ``start`` to ``end``."""
        return Part(self.sql, self.tokens[start:end])

    def outer(self) -> Iterator[tuple[int, Token]]:
        """The tokens outside all brackets, with their places. A bracket itself is outside. Raises SqlMistake."""
        opened: list[Token] = []
        for index, token in enumerate(self.tokens):
            if token.token_type in _CLOSING:
                if not opened:
                    raise SqlMistake(token.line, f"got '{token.text}' without the bracket that it closes")
                opened.pop()
            if not opened:
                yield index, token
            if token.token_type in _OPENING:
                opened.append(token)
        if opened:
            raise SqlMistake(opened[-1].line, f"got '{opened[-1].text}' without the bracket that closes it")

    def split(self) -> list["Part"]:
        """The parts between the commas outside all brackets; none of nothing. Raises SqlMistake for an empty part."""
        if not self.tokens:
            return []
        commas = [index for index, token in self.outer() if token.token_type is TokenType.COMMA]
        starts = [0, *(comma + 1 for comma in commas)]
        parts = [self.slice(start, end) for start, end in zip(starts, [*commas, None], strict=True)]
        if any(not part.tokens for part in parts):
            raise SqlMistake(self.line, f"got '{self.text}', allowed is something before and after each comma")
        return parts

    def call(self) -> tuple[str, "Part"] | None:
        """The name in capitals and the arguments of a part that is one call, ``NAME(…)``."""
        types = [token.token_type for _, token in self.outer()]
        if types[1:] != [TokenType.L_PAREN, TokenType.R_PAREN]:
            return None
        return self.tokens[0].text.upper(), self.slice(2, -1)


@dataclass(frozen=True)
class Statement:
    """The clauses of ``SELECT … FROM … WINDOW … WHERE … GROUP BY …``, without their keywords."""

    select: Part
    source: Part
    window: Part | None
    where: Part | None
    group_by: Part | None

    @classmethod
    def parse(cls, sql: str) -> "Statement":
        """Split ``sql`` into its clauses. Raises SqlMistake."""
        whole = _drop_end(Part(sql, tuple(_tokenize(sql))))
        if not whole.tokens or whole.tokens[0].token_type is not TokenType.SELECT:
            got = f"'{whole.tokens[0].text}'" if whole.tokens else "nothing"
            line = whole.line if whole.tokens else 1
            raise SqlMistake(line, f"got {got} at its start, allowed is one statement: SELECT … FROM … GROUP BY …")
        clauses = dict(_clauses(whole))
        if TokenType.FROM not in clauses:
            raise SqlMistake(whole.line, "got no FROM, allowed is SELECT … FROM a source")
        return cls(
            select=clauses[TokenType.SELECT],
            source=clauses[TokenType.FROM],
            window=clauses.get(TokenType.WINDOW),
            where=clauses.get(TokenType.WHERE),
            group_by=clauses.get(TokenType.GROUP_BY),
        )


def _tokenize(sql: str) -> list[Token]:
    try:
        tokens = Spark().tokenize(sql)
    except TokenError:
        raise SqlMistake(1, "got a quote or a comment that does not close") from None
    for token in tokens:
        # Spark reads it as text, standard SQL as the name of a column.
        if sql[token.start] == '"':
            raise SqlMistake(
                token.line, f"got \"{token.text}\", allowed is '{token.text}' for text, `{token.text}` for a column"
            )
    return tokens


def _drop_end(whole: Part) -> Part:
    """Without a final semicolon and ksqlDB's EMIT CHANGES: a result always changes with each event."""
    while whole.tokens and whole.tokens[-1].token_type is TokenType.SEMICOLON:
        whole = whole.slice(0, -1)
    words = [token.text.upper() for token in whole.tokens[-2:]]
    if words == ["EMIT", "CHANGES"]:
        return whole.slice(0, -2)
    if words == ["EMIT", "FINAL"]:
        raise SqlMistake(
            whole.tokens[-2].line,
            "got EMIT FINAL, which a metric does not need: a query chooses by WHERE state = 'final'",
        )
    return whole


def _clauses(whole: Part) -> Iterator[tuple[TokenType, Part]]:
    """Each clause by its keyword. Raises SqlMistake for others, for a second one, and for another order."""
    starts = [index for index, token in whole.outer() if _starts_clause(whole, index, token)]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        token, clause = whole.tokens[start], whole.slice(start + 1, end)
        keyword = token.text.upper()
        if token.token_type is TokenType.SEMICOLON:
            raise SqlMistake(token.line, f"got a second statement, but {_TWO_METRICS}")
        if token.token_type in _REFUSED:
            raise SqlMistake(token.line, f"got {keyword}, which no metric has: {_REFUSED[token.token_type]}")
        if not clause.tokens:
            raise SqlMistake(token.line, f"got nothing after {keyword}")
        yield token.token_type, clause
    order = [_CLAUSES.index(whole.tokens[start].token_type) for start in starts]
    for start, earlier, later in zip(starts[1:], order, order[1:], strict=False):
        if later <= earlier:
            token = whole.tokens[start]
            raise SqlMistake(
                token.line,
                f"got {token.text.upper()} in this place, allowed is SELECT … FROM … WHERE … GROUP BY …, each once",
            )


def _starts_clause(whole: Part, index: int, token: Token) -> bool:
    if index and whole.tokens[index - 1].token_type is TokenType.DOT:
        return False  # record.offset
    if token.token_type is TokenType.FROM:
        return whole.tokens[index - 1].token_type is not TokenType.DISTINCT  # x IS DISTINCT FROM y
    if token.token_type is TokenType.WINDOW:
        following = whole.tokens[index + 1 : index + 2]
        return not following or following[0].token_type is not TokenType.L_PAREN  # Spark's window(…)
    return token.token_type in _CLAUSES or token.token_type in _REFUSED or token.token_type is TokenType.SEMICOLON
