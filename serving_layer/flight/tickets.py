"""What a client carries from one call to the next: a query, and where its answer may be kept. Any server on the same
tables can read it, and computes the answer again if it does not keep it.
"""

import json
import secrets
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass

import pyarrow as pa

from serving_layer.flight.messages import MalformedError


@dataclass(frozen=True)
class Carried:
    """A query."""

    sql: str
    as_of: str | None = None
    """The token of the snapshot that answers it. None: the newest one, or the session's."""
    kept: str = ""
    """The key of its answer in ``KeptAnswers``."""

    def to_bytes(self) -> bytes:
        """What the client carries."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, content: bytes) -> "Carried":
        """Raises MalformedError."""
        try:
            carried = cls(**json.loads(content))
            if isinstance(carried.sql, str) and isinstance(carried.as_of, str | None) and isinstance(carried.kept, str):
                return carried
        except (ValueError, TypeError, RecursionError):
            pass
        raise MalformedError("the bytes are no ticket or handle of this server")


@dataclass(frozen=True)
class Answer:
    """The rows of a query."""

    token: str
    """The token of their snapshot."""
    rows: pa.Table
    """With the token in the metadata of the schema."""


class KeptAnswers:
    """Answers that were computed to tell their columns, until they are fetched: for ``SECONDS``, with ``most`` bytes
    in all.
    """

    SECONDS = 10.0

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[str, Answer, float]] = OrderedDict()

    def keep(self, client: str, answer: Answer) -> str:
        """Keep the answer for ``client``, and return its key."""
        key = secrets.token_urlsafe(16)
        self._kept[key] = (client, answer, time.monotonic())
        self.forget()
        return key

    def take(self, client: str, key: str) -> Answer | None:
        """The answer, which is not kept any longer. None: it is not kept."""
        self.forget()
        if self._kept.get(key, ("",))[0] != client:
            return None
        return self._kept.pop(key)[1]

    def forget(self) -> None:
        """Forget what is too old or too much."""
        now = time.monotonic()
        size = sum(answer.rows.nbytes for _, answer, _ in self._kept.values())
        for key, (_, answer, since) in list(self._kept.items()):
            if now - since > self.SECONDS or size > self._most:
                del self._kept[key]
                size -= answer.rows.nbytes
