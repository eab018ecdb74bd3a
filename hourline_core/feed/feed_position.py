"""How far a follower of the feed has read: the token of an answer, and what the token does not name."""

import re
from dataclasses import dataclass

from hourline_core.errors import UsageError
from hourline_core.ledger.token import REST, REST_OF_POSITION

_REST = re.compile(REST_OF_POSITION)


@dataclass(frozen=True)
class FeedPosition:
    """A position in the feed. Its text is ``p12-flights.345~f17.c2``, and stands for the token wherever one is asked
    for. A token alone is a position, too: what it does not name is told from the beginning.
    """

    token: str
    """The token of the answer, or a time (ISO text)."""
    findings: int | None = None
    """The version of the table of findings. None: it is not known."""
    confirmations: int = 0
    """The version of the table of confirmed gaps. 0: none is known."""

    @classmethod
    def parse(cls, text: str) -> "FeedPosition":
        """The position in ``text``. Raises UsageError if what follows a token is none."""
        token, separator, rest = text.strip().partition(REST)
        if not separator:
            return cls(token)
        found = _REST.fullmatch(separator + rest)
        if found is None:
            raise UsageError(f"got '{text}', allowed is the id of an event of /changes, such as p12-flights.345~f17.c2")
        return cls(token, int(found["findings"]), int(found["confirmations"]))

    def __str__(self) -> str:
        return f"{self.token}{REST}f{self.findings or 0}.c{self.confirmations}"
