"""``topics tail``: the records of a topic, as lines of JSON."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load, load_settings_alone, require_known
from hourline.cli.output import say_raw
from hourline.cli.stop_signals import stop_on_signal
from hourline.exit_status import INTERRUPTED
from hourline_core.errors import UsageError
from hourline_core.model.hours import wall_clock

if TYPE_CHECKING:
    from hourline_core.model import Project, Source
    from hourline_core.runtime.topic_facts import TopicFacts
    from hourline_core.runtime.topic_reader import TopicReader, TopicRecord

_LAST = 10
_MOST_LAST = 10_000
"""They are held in memory, since the first of them comes first."""
_MOST = 2**62


def tail(
    topic: Annotated[str, typer.Argument(help="The name of the topic.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="OFFSET|TIME|beginning|end",
            help="Where to begin: at an offset, or at the first record sent at a time such as 2026-01-31T00:00:00Z.",
            show_default="the last records",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_LAST, help="The number of records of each partition.", show_default=str(_LAST)),
    ] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition. May be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The number of records, after which it ends.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with records that come, until Ctrl-C.")] = False,
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="Also give the fields of each record, as this source reads it.")
    ] = None,
) -> None:
    """Print records of a topic as JSON lines.

    The oldest of each partition comes first. Only committed records are read. No offset is committed. A key or value
    that is UTF-8 is a text, others are {"base64": "…"}. `hourline topics produce` takes these lines. With --source,
    each also has the fields, or why the source rejects the record.
    """
    if start is not None and last is not None:
        raise UsageError("got --from and --last, allowed is one of them")
    declared = load_settings_alone(project, workspace) if source is None else load(project, workspace)
    as_lines = _lines_of(None if source is None else _source(declared, source))
    begin = _position(start)
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_facts import describe_topic
    from hourline_core.runtime.topic_reader import TopicReader

    kafka, options = reachable_kafka(declared), declared.settings.kafka.options
    found = describe_topic(kafka, topic, options)
    begins, ends = _bounds(kafka, found, options, partition)
    starts = None if begin is None else _starts(begin, begins, ends, kafka, topic, options)
    left = _MOST if limit is None else limit
    with stop_on_signal("stopping") as stop, TopicReader(kafka, topic, found.id, options, stop.is_set) as reader:
        for records in _records(reader, starts, begins, ends, last or _LAST, follow, with_new=not partition):
            if shown := records[:left]:
                say_raw("\n".join(as_lines(shown)))
            if (left := left - len(shown)) == 0:
                return
    if stop.is_set() and not follow:  # It was to come to an end by itself.
        raise typer.Exit(INTERRUPTED)


def _records(
    reader: "TopicReader",
    starts: Mapping[int, int] | None,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    last: int,
    follow: bool,
    with_new: bool,
) -> "Iterator[list[TopicRecord]]":
    if starts is None:
        yield reader.read_last(begins, ends, last)
    elif not follow:
        yield from reader.read(starts, ends)
    if follow:
        yield from reader.follow(ends if starts is None else starts, with_new)


Position = int | datetime | str
"""An offset, a time (UTC), or one of beginning and end."""


def _position(text: str | None) -> Position | None:
    """What --from says. Raises UsageError."""
    if text is None or text in ("beginning", "end"):
        return text
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    raise UsageError(
        f"got --from {text}, allowed are beginning, end, an offset, "
        "and a time with its offset from UTC such as 2026-01-31T00:00:00Z"
    )


def _bounds(
    kafka: str, topic: "TopicFacts", options: Mapping[str, str], chosen: Iterable[int] | None
) -> tuple[dict[int, int], dict[int, int]]:
    """Where the partitions begin and end. Raises UsageError, BrokerError."""
    from hourline_core.runtime.topics import topic_offsets

    numbers = [of.number for of in topic.partitions]
    if chosen and (wrong := sorted(set(chosen) - set(numbers))):
        raise UsageError(f"topic '{topic.name}' has no partition {wrong[0]}, allowed are 0 to {len(numbers) - 1}")
    offsets = {of: both for of, both in topic_offsets(kafka, topic.name, options).items() if not chosen or of in chosen}
    return {of: begin for of, (begin, _) in offsets.items()}, {of: end for of, (_, end) in offsets.items()}


def _starts(
    position: Position,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    kafka: str,
    topic: str,
    options: Mapping[str, str],
) -> dict[int, int]:
    """At which offset to begin in each partition. Raises UsageError, BrokerError."""
    match position:
        case "beginning":
            return dict(begins)
        case int():
            if position > max(ends.values()):
                raise UsageError(f"got --from {position}, and topic '{topic}' ends at {max(ends.values())}")
            return {of: min(max(begin, position), ends[of]) for of, begin in begins.items()}
        case datetime():
            from hourline_core.runtime.topics import offsets_at

            found = offsets_at(kafka, topic, position, options)
            return {of: found[of] for of in begins}
    return dict(ends)


def _source(project: "Project", name: str) -> "Source":
    found = project.sources[require_known("source", name, list(project.sources))]
    if found.topic is None:
        raise UsageError(f"source '{name}' is {found.origin_text}: it reads no records of Kafka")
    return found


def _lines_of(source: "Source | None") -> "Callable[[list[TopicRecord]], Iterable[str]]":
    from hourline.cli.topics.record_lines import line_of

    if source is None:
        return lambda records: map(line_of, records)
    from hourline.cli.topics.decoded_fields import DecodedFields

    decoded = DecodedFields(source)
    return lambda records: map(line_of, records, decoded.of(records, wall_clock()))
