"""The notes under an answer: what it lacks, and what has been sent and is not counted yet."""

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from hourline.cli.output import note

if TYPE_CHECKING:
    from hourline_core.ledger.missing_hours import MissingHours
    from serving_layer import Connection


def note_missing(missing: "Iterable[MissingHours]") -> None:
    """Note the hours that an answer lacks, with the commands that compute them."""
    for one in missing:
        for words in one.in_words():
            note(words)


def note_waiting(connection: "Connection", query: str, *, is_asked: bool) -> None:
    """Note the records that the answer of ``query`` does not count yet. Kafka is asked for them.

    Unless a person has asked (``is_asked``), nothing is noted if there are none, or if they cannot be found, for
    whatever reason.
    """
    # The answer has been given, and is right. `hourline status` tells what is wrong.
    with nullcontext() if is_asked else suppress(Exception):
        for one in connection.waiting(query):
            if is_asked or one.count or not one.has_begun:
                note(one.in_words())
