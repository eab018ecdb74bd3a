"""The order in which people expect names: s1, s2, s10."""

import re

_NUMBERS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, str, str], ...]:
    """A key for sorting. Digits within a name count as a number, and capital letters as small ones. Different names
    have different keys.
    """
    # Every second part is a number. Leading zeros decide only between names that are otherwise equal.
    parts = [
        (int(part), "", "") if place % 2 else (0, part.casefold(), "")
        for place, part in enumerate(_NUMBERS.split(name))
    ]
    return (*parts, (0, "", name))
