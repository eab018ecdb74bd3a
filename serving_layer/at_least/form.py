"""What an answer is to count at least, as people and programs write it."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from hourline_core.errors import UsageError

AtLeast = Literal["now"] | Mapping[tuple[str, int], int]
"""The records that an answer is to count: all that Kafka holds at the moment of asking, or those up to an offset
(included) of a partition of a topic.
"""

WAIT_SECONDS = 30.0
"""How long an answer waits for them, unless a client says another time."""

_FORM = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>\d{1,9})=(?P<offset>\d{1,18})", re.ASCII)


def parse_at_least(given: Sequence[str]) -> AtLeast:
    """What ``given`` says: `now` alone, or texts such as `flights:0=9977`. Of several offsets of one partition, the
    highest. Raises UsageError.
    """
    texts = [text.strip() for text in given]
    if "now" in texts:
        if len(texts) > 1:
            raise UsageError(f"got {', '.join(texts)}; allowed is now alone, which stands for every partition")
        return "now"
    found: dict[tuple[str, int], int] = {}
    for text in texts:
        read = _FORM.fullmatch(text)
        if read is None:
            raise UsageError(_wrong(text))
        key = read["topic"], int(read["partition"])
        found[key] = max(found.get(key, 0), int(read["offset"]))
    return found


def check_at_least(at_least: AtLeast) -> AtLeast:
    """What a program gives, if it is in the form. Raises UsageError."""
    if isinstance(at_least, str):
        return parse_at_least([at_least])
    keys = {key: key if isinstance(key, tuple) and len(key) == 2 else (key, "") for key in at_least}
    return parse_at_least([f"{keys[key][0]}:{keys[key][1]}={offset}" for key, offset in at_least.items()])


def _wrong(text: str) -> str:
    return (
        f"got '{text}', allowed is TOPIC:PARTITION=OFFSET, such as flights:0=9977, with the offset that Kafka has told "
        "the producer, or now"
    )
