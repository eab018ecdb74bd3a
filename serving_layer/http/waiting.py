"""What an answer does not count yet, for clients who ask for it: Kafka is asked then, for two seconds at most."""

from collections.abc import Sequence

from hourline_core.errors import UsageError
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.http.answering import Answering
from serving_layer.reports.kafka_offsets import Offsets
from serving_layer.reports.waiting import find_waiting

ASKED = "Also say how many sent records the answer does not count yet. Kafka is asked. The answer is not to be cached."


class WaitingOf(Described):
    """The sent records of a source that an answer does not count yet."""

    source: str
    """The name of the source."""
    count: int | None
    """Their number. Null: it is not known."""
    words: str
    """The same in words, with the reason if it is not known, and with what to do."""


async def look_up(answering: Answering, *, waiting: bool, as_of: str | None = None) -> Offsets | None:
    """The offsets in Kafka if ``waiting``, else None. Raises UsageError if an earlier answer is asked for."""
    if waiting and as_of is not None:
        raise UsageError("waiting is about the newest result: leave out as_of")
    return await answering.kafka_offsets_within_limit() if waiting else None


def waiting_in(connection: Connection, query: str, offsets: Offsets | None) -> list[WaitingOf] | None:
    """What the answer to ``query`` does not count yet. None: nobody has asked."""
    if offsets is None:
        return None
    return [
        WaitingOf(source=one.source, count=one.count, words=one.in_words())
        for one in find_waiting(connection, query, offsets)
    ]


def headers_of(waiting: Sequence[WaitingOf] | None) -> dict[str, str]:
    """The same as a header, such as ``clicks=3, orders=unknown``."""
    if waiting is None:
        return {}
    told = (f"{one.source}={'unknown' if one.count is None else one.count}" for one in waiting)
    return {"Hourline-Waiting": ", ".join(told)}
