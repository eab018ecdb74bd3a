"""The records of a sink's topic: what their headers say, and reading those that are not noted as sent.

Each record has these headers: ``hourline-sink`` (project and sink), ``hourline-revision``, ``hourline-window`` (start
and end of the window) and, unless it is a tombstone, ``hourline-digest`` (the MD5 of the value without token and
revision, and of the id of its schema). In another format than JSON, ``hourline-key`` has the key as JSON.

If keys get another schema, such as with other dimensions, a key has other bytes. Kafka then keeps what it has under the
earlier ones, so these are results of their own, which are gone: their key is a list of the key and of these bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from hourline_core.errors import SinkError
from hourline_core.model.hours import iso_text
from hourline_core.runtime.kafka_admin import OF_GROUP, TIMEOUT_SECONDS, broker_error
from hourline_core.runtime.topics import topic_offsets
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults

OFFSETS = "offsets"
"""Under this name, the next offset of each partition is noted."""
_OWNER, _REVISION, _WINDOW, _DIGEST = "hourline-sink", "hourline-revision", "hourline-window", "hourline-digest"
_KEY, _JSON = "hourline-key", "json"
_AT_ONCE = 10_000


@dataclass(frozen=True)
class Owner:
    """Whose the records are."""

    name: str
    """The project and the sink."""
    format: str
    """The format of the records. In JSON, a record has no header with its key."""
    key_front: bytes
    """What the bytes of each key begin with."""


def headers_of(owner: Owner, result: Result, revision: int) -> list[tuple[str, str | bytes | None]]:
    """The headers of a record."""
    said = {_OWNER: owner.name, _REVISION: str(revision), _WINDOW: _window_text(result.window)}
    said |= {} if owner.format == _JSON else {_KEY: _earlier(result)[0]}
    said |= {} if result.digest is None else {_DIGEST: result.digest}
    return [(name, text.encode()) for name, text in said.items()]


def read_sent_records(
    bootstrap: str, options: Mapping[str, str], topic: str, owner: Owner, sent: SentResults
) -> dict[int, int]:
    """Read the committed records of ``topic`` from the offsets that are noted in ``sent`` on, and note them there.
    Returns the next offset of each partition.

    Raises SinkError if a record is not one of ``owner``, and BrokerError.
    """
    noted: dict[str, int] = sent.noted(OFFSETS) or {}
    ends = topic_offsets(bootstrap, topic, options)
    nexts = {of: max(noted.get(str(of), 0), first) for of, (first, _) in ends.items()}
    waiting = {of for of, (_, end) in ends.items() if nexts[of] < end}
    doing = f"read topic '{topic}' of a sink"
    reported: list[KafkaError] = []
    if not waiting:
        return nexts
    settings: dict[str, object] = {
        **options,
        "bootstrap.servers": bootstrap,
        "group.id": "hourline-sink",  # No offset is committed to it.
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "log_level": 0,
        "error_cb": reported.append,
    }
    consumer = None
    try:
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, of, nexts[of]) for of in sorted(waiting)])
        found: list[Result] = []
        highest = 0
        while waiting:
            message = consumer.poll(TIMEOUT_SECONDS)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            of, error = message.partition(), message.error()
            if error is not None and error.code() == OF_GROUP:
                continue
            assert of is not None
            if error is None:
                result, revision = _read(message, topic, owner)
                found.append(result)
                highest = max(highest, revision)
                nexts[of] = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(of)
                nexts[of] = max(nexts[of], message.offset() or 0)
            else:
                raise KafkaException(error)
            if not waiting or len(found) == _AT_ONCE:
                sent.keep(found, highest, **{OFFSETS: {str(of): offset for of, offset in nexts.items()}})
                found.clear()
    except KafkaException as error:
        raise broker_error(error.args[0], reported, bootstrap, doing, TIMEOUT_SECONDS, "READ") from None
    finally:
        if consumer:
            consumer.close()
    return nexts


@lru_cache(1_000)
def _window_text(window: tuple[datetime, datetime]) -> str:
    return "/".join(moment.isoformat() for moment in window)


def _read(message: Message, topic: str, owner: Owner) -> tuple[Result, int]:
    """The result of a record, without its value, and its revision. Raises SinkError."""
    headers: dict[str, str | bytes | None] = dict(message.headers() or ())
    said = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for name, value in headers.items()
    }
    key, given = key_of(message), said.get(_OWNER)
    try:
        if given != owner.name or (_KEY in said) == (owner.format == _JSON):
            raise ValueError
        start, end = (datetime.fromisoformat(moment) for moment in str(said[_WINDOW]).split("/"))
        written = message.key() or b""
        if isinstance(written, bytes) and not written.startswith(owner.key_front):
            key = json.dumps([key, written.hex()])
        digest = None if message.value() is None else str(said[_DIGEST])
        return Result(key, (start, end), None, digest), int(str(said[_REVISION]))
    except (ValueError, KeyError):
        whose = "which no sink has sent"
        if given == owner.name:
            whose = f"which this sink has sent in another format than {owner.format}"
        elif given:
            whose = (
                f"which sink {given} has sent, and this one is {owner.name} (`name` in hourline.yaml, and the sink's)"
            )
        raise SinkError(
            f"topic '{topic}' has a record at partition {message.partition()}, offset {message.offset()}"
            f"{_sent_at(message)}, {whose}; allowed are the records of this sink alone: name a topic of its own"
        ) from None


def _sent_at(message: Message) -> str:
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        return ""
    try:
        return f", sent at {iso_text(datetime.fromtimestamp(milliseconds / 1000, UTC))}"
    except (OverflowError, ValueError, OSError):  # A producer may say any time.
        return ""


def earlier_bytes_of(result: Result) -> bytes | None:
    """The bytes of the key of a result that was sent by an earlier schema. None: it is one of today's."""
    return _earlier(result)[1]


def _earlier(result: Result) -> tuple[str, bytes | None]:
    """The key as JSON, and its bytes if these are of an earlier schema."""
    if result.key.startswith("{"):
        return result.key, None
    key, written = json.loads(result.key)
    return str(key), bytes.fromhex(written)


def key_of(message: Message) -> str:
    """The key of a record as JSON."""
    headers: dict[str, str | bytes | None] = dict(message.headers() or ())
    key = headers.get(_KEY) or message.key() or ""
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key
