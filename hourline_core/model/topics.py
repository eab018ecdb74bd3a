"""The topics that a source reads: one, several, or all that a pattern matches. A derived source reads none: None."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.times import parse_duration

_ALLOWED = "allowed are a name, a list of names, or {pattern: …}, a regular expression over whole names"


def check_topic_name(name: str) -> str:
    """``name``, if a topic may have it. Raises a pydantic error."""
    allowed = name not in (".", "..") and 0 < len(name) <= 249
    if not allowed or not all(
        character.isascii() and (character.isalnum() or character in "._-") for character in name
    ):
        raise refuse(
            f"got {describe(name)}, allowed are up to 249 letters from a to z and A to Z, digits, '.', '_' and '-'"
        )
    return name


def _pattern(pattern: str) -> str:
    # Spark reads it as Java does. Names of groups are the difference that could matter, and are of no use here.
    try:
        re.compile(pattern)
    except re.error as error:
        raise refuse(f"got {describe(pattern)}, allowed is a regular expression: {error}") from error
    if not pattern or "(?P" in pattern:
        raise refuse(f"got {describe(pattern)}, allowed is a regular expression without names of groups")
    return pattern


class TopicPattern(Declaration):
    """All topics whose whole names a regular expression matches."""

    pattern: Annotated[str, AfterValidator(_pattern)]
    """The regular expression, such as `clicks_.*`."""


Topic = str | tuple[str, ...] | TopicPattern
"""A topic's name, several names, or a pattern."""


def _read(value: Any) -> Topic:
    match value:
        case TopicPattern():
            return value
        case str():
            return check_topic_name(value)
        case {"pattern": str(pattern), **others} if not others:
            return TopicPattern(pattern=_pattern(pattern))
        case [_, *_] if all(isinstance(name, str) for name in value):
            names = tuple(map(check_topic_name, value))
            if len(set(names)) < len(names):
                raise refuse("got a topic twice, allowed is each name once")
            return names
    raise refuse(f"got {describe(value)}, {_ALLOWED}")


TopicForm = Annotated[Topic, PlainValidator(_read, json_schema_input_type=str | list[str] | TopicPattern)]
"""The topics of a source, in each form."""


def _retention(value: object) -> "Retention":
    if value == "forever":
        return "forever"
    try:
        retention = parse_duration(value)
    except PydanticCustomError as error:
        raise refuse(f"{error.message()}, or forever") from None
    if retention < timedelta(minutes=1):
        raise refuse(f"got {describe(value)}, allowed is at least 1m, or forever")
    return retention


Retention = timedelta | Literal["forever"]
"""How long Kafka keeps records."""

RetentionForm = Annotated[
    Retention, PlainValidator(_retention), WithJsonSchema({"type": "string", "examples": ["14d", "forever"]})
]


def names_of(topic: Topic | None) -> tuple[str, ...]:
    """The topics that are declared by name. Empty: they are declared by a pattern, or there are none."""
    match topic:
        case TopicPattern() | None:
            return ()
        case str():
            return (topic,)
        case names:
            return names


def matches(topic: Topic | None, name: str) -> bool:
    """Whether the topic called ``name`` is among the declared ones."""
    if isinstance(topic, TopicPattern):
        return re.fullmatch(topic.pattern, name) is not None
    return name in names_of(topic)


def topic_text(topic: Topic | None) -> str:
    """The declared topics for messages: ``clicks_eu, clicks_us``, or ``/clicks_.*/``."""
    return ", ".join(topic_labels(topic))


def topic_labels(topic: Topic | None) -> tuple[str, ...]:
    """Each declared topic for people: its name, or the pattern as ``/clicks_.*/``."""
    return (f"/{topic.pattern}/",) if isinstance(topic, TopicPattern) else names_of(topic)


def shared_topic(one: Topic | None, other: Topic | None) -> str | None:
    """A topic that both declare. None: they share none. Whether two different patterns match the same name is not known
    before there are topics.
    """
    names = [name for name in names_of(one) if matches(other, name)]
    names += [name for name in names_of(other) if matches(one, name)]
    return names[0] if names else topic_text(one) if one is not None and one == other else None
