"""The token of an answer: a short text that names the state of all tables that it was computed from.

    p12-flights.345-weather.80

Publication 12 (``p0``: nothing had been published yet), and of each source the last sequence that counts. The same
state has the same token.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hourline_core.errors import UsageError
from hourline_core.ledger.snapshot import Snapshot

REST = "~"
"""In the id of an event of the feed, what follows the token. It is no part of the token; see ``feed_position.py``."""
REST_OF_POSITION = rf"{REST}f(?P<findings>\d{{1,18}})\.c(?P<confirmations>\d{{1,18}})"
_TOKEN = re.compile(rf"p(?P<publication>\d{{1,18}})(?P<sequences>(-[a-z][a-z0-9_]*\.\d{{1,18}})*)({REST_OF_POSITION})?")
_NO_PUBLICATION = 0
"""In the text of a token: nothing was published yet."""


@dataclass(frozen=True)
class AnswerToken:
    """The content of a token. ``str(token)`` is its text."""

    publication: int | None
    """The number of the last publication. None: nothing was published yet."""
    sequences: Mapping[str, int]
    """By source, the last finished sequence. A source that is absent had no tables."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "AnswerToken":
        """The token of ``snapshot``."""
        sequences = {name: known.sequence for name, known in snapshot.progress.items()} | dict(snapshot.made_anew)
        return cls(snapshot.publication, dict(sorted(sequences.items())))

    @classmethod
    def parse(cls, text: str) -> "AnswerToken":
        """The token in ``text``, which may be the id of an event of the feed. Raises UsageError if it is none."""
        found = _TOKEN.fullmatch(text.strip())
        if found is None:
            advice = "`hourline query` prints it on a terminal, and each HTTP response has one"
            raise UsageError(f"'{text}' is neither a token nor a time; a token looks like p12-flights.345: {advice}")
        pairs = [part.split(".") for part in found["sequences"].split("-")[1:]]
        if len({name for name, _ in pairs}) < len(pairs):
            raise UsageError(f"'{text}' is neither a token nor a time: it names a source twice")
        publication = int(found["publication"])
        sequences = {name: int(sequence) for name, sequence in pairs}
        return cls(None if publication == _NO_PUBLICATION else publication, sequences)

    def __str__(self) -> str:
        publication = _NO_PUBLICATION if self.publication is None else self.publication
        return "-".join([f"p{publication}", *(f"{name}.{sequence}" for name, sequence in self.sequences.items())])
