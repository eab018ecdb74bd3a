"""Records that are text, of which a regular expression with named groups takes its parts."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.model.base import Declaration, refuse

# RE2 takes half of a character with it, which is no text.
_ONE_BYTE = re.compile(r"(?:[^\\]|\\[^C])*\\C", re.DOTALL)
_ALLOWED = r"allowed is a regular expression of RE2 with named groups, such as (?P<status>\d{3})"


def whole(pattern: str) -> str:
    """``pattern`` as an expression that a whole text matches."""
    return rf"\A(?:{pattern})\z"


@lru_cache(maxsize=64)
def groups_of(pattern: str) -> tuple[str, ...]:
    """The names of the groups of ``pattern``, in their order. Raises a refusal if it is none that can be read."""
    # Declarations without such a format need no Arrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # What stands between the brackets of ``whole`` has to be an expression by itself.
        for text in (pattern, whole(pattern)):
            found = pc.extract_regex(pa.array([], pa.string()), text).type
    except UnicodeEncodeError:
        raise refuse(f"got half of a surrogate pair, which is no character, {_ALLOWED}") from None
    except pa.ArrowInvalid as error:
        said = str(error).partition("Invalid regular expression: ")[2]
        if not said:
            raise refuse(f"got a group without a name, {_ALLOWED}, or (?:…) for what is no field") from None
        if text != pattern:
            raise refuse(rf"got an expression that \Q leaves open, {_ALLOWED}") from None
        raise refuse(f"got an expression that RE2 does not take ({' '.join(said.split())}), {_ALLOWED}") from None
    names = tuple(field.name for field in found)
    if not names:
        raise refuse(f"got an expression without a named group, {_ALLOWED}")
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise refuse(f"got the group '{twice}' again, allowed is each name once")
    if _ONE_BYTE.match(pattern):
        raise refuse(r"got \C, which is one byte of a character, allowed are expressions over whole characters")
    return names


def _pattern(text: str) -> str:
    groups_of(text)
    return text


class TextFormat(Declaration):
    """A text in UTF-8, with at most one line end behind it."""

    pattern: Annotated[str, AfterValidator(_pattern)]
    """A regular expression of RE2 that the whole text matches. Its named groups, `(?P<name>…)`, are the fields."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The declared type of each group, if it is not declared otherwise."""
        return dict.fromkeys(groups_of(self.pattern), "string")
