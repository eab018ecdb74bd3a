"""Generated events, to try user-defined measures on."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

Event = tuple[Any, ...]
"""The arguments of a measure for one event."""
Parts = Sequence[Sequence[Event]]
"""Three parts of some events. None of them is empty."""

_PARTS = 40
_WORDS = ["", "a", "b", "ab", "é", "zebra"]


def generate_parts(examples: Sequence[Event], arguments: Sequence[pa.DataType]) -> Iterator[Parts]:
    """Parts of events, the small ones first, which are the same each time. The events are ``examples``, or if there are
    none, values of the types ``arguments``.
    """
    chance = random.Random(0)  # noqa: S311 (nothing is secret)

    def event(size: int) -> Event:
        return chance.choice(examples) if examples else tuple(_value(of, chance, size) for of in arguments)

    for number in range(_PARTS):
        size = 1 + number // 8
        yield [[event(size) for _ in range(chance.randint(1, size))] for _ in range(3)]


def _value(of: pa.DataType, chance: random.Random, size: int) -> Any:
    """A value of an Arrow type, never null. Doubles are eighths, so sums of some of them are exact."""
    number = chance.randint(-(4**size), 4**size)
    types = pa.types
    if types.is_list(of):
        return [_value(of.value_type, chance, size) for _ in range(chance.randint(0, size))]
    if types.is_struct(of):
        return {field.name: _value(field.type, chance, size) for field in of}
    if types.is_map(of):
        return [(_value(of.key_type, chance, size), _value(of.item_type, chance, size))]
    word = chance.choice(_WORDS)
    by_type = (
        (types.is_boolean, number > 0),
        (types.is_integer, max(-100, min(number, 100))),
        (types.is_floating, number / 8),
        (types.is_date, date(2024, 2, 28) + timedelta(days=number)),
        (types.is_timestamp, datetime(2024, 2, 28, tzinfo=UTC) + timedelta(minutes=number)),
        (types.is_decimal, Decimal(number).scaleb(-of.scale) if types.is_decimal(of) else None),
        (types.is_binary, word.encode()),
    )
    return next((value for is_one, value in by_type if is_one(of)), word)
