"""Patterns of SQL, by which BI tools look for views. A client sends them, so matching takes few steps whatever they
are: DuckDB's own LIKE takes exponentially many.
"""

from collections.abc import Callable

from hourline_core.errors import UsageError

_LONGEST = 256
"""The maximum number of characters of a pattern. A name has fewer than 100, and each may be escaped."""
_ANY, _MANY, _ESCAPE = "_", "%", "\\"


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text is like the pattern, in any case: ``ILIKE pattern ESCAPE '\\'``. Raises UsageError."""
    if len(pattern) > _LONGEST:
        raise UsageError(f"the pattern has {len(pattern):,} characters; allowed are {_LONGEST}")
    letters = iter(pattern.lower())
    parts = [(letter, letter if letter != _ESCAPE else next(letters, "")) for letter in letters]
    if any(not meant for _, meant in parts):
        raise UsageError(f"the pattern ends with {_ESCAPE}, which escapes the character after it")

    def is_like(text: str) -> bool:
        lower = text.lower()
        ends = {0}  # Of the beginnings of the text that are like the pattern so far.
        for letter, meant in parts:
            if letter == _MANY:
                ends = set(range(min(ends), len(lower) + 1))
            else:
                ends = {end + 1 for end in ends if end < len(lower) and (letter == _ANY or lower[end] == meant)}
            if not ends:
                return False
        return len(lower) in ends

    return is_like
