"""The note under an empty answer: what has been sent and is not counted yet."""

from contextlib import suppress
from typing import TYPE_CHECKING

from hourline.cli.output import note

if TYPE_CHECKING:
    from serving_layer import Connection


def note_waiting(connection: "Connection", query: str) -> None:
    """Note the records that ``query``, whose answer is empty, may be waiting for. Kafka is asked for them.
    Nothing is noted if they cannot be found, for whatever reason.
    """
    from serving_layer.reports.kafka_offsets import KafkaOffsets
    from serving_layer.reports.waiting import find_waiting

    with suppress(Exception):  # The answer has been given, and is right. `hourline status` tells what is wrong.
        for one in find_waiting(connection, query, KafkaOffsets(connection.project).within_limit()):
            note(one.in_words())
