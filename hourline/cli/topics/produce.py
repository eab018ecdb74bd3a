"""``topics produce``: sends lines to a topic."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from hourline.cli.options import ProjectFolder, Workspace, load, load_settings_alone
from hourline.cli.output import say
from hourline.cli.topics.readers import sinks_of
from hourline.exit_status import INTERRUPTED
from hourline_core.errors import UsageError

if TYPE_CHECKING:
    from hourline_core.formats.files.record import Record


def produce(
    topic: Annotated[str, typer.Argument(help="The name of the topic.")],
    file: Annotated[
        Path | None, typer.Argument(help="A file with the lines.", show_default="the standard input")
    ] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    raw: Annotated[bool, typer.Option("--raw", help="Each line is a value, without a key, whatever it holds.")] = False,
) -> None:
    """Send JSON lines to a topic.

    They are objects as `hourline topics tail` prints them. Each needs its value, which may be null. Key, headers,
    partition and timestamp may be left out. A line of another form is refused with its number, and no line after it is
    read. The command waits until Kafka has stored the records. The topic of a sink takes no records of anyone else.
    """
    # Without sinks, mistakes in declarations do not matter.
    has_sinks = (project / "sinks").is_dir()
    declared = load(project, workspace) if has_sinks else load_settings_alone(project, workspace)
    if sinks := sinks_of(declared, topic):
        raise UsageError(
            f"topic '{topic}' is that of sink '{sinks[0]}', which stops at a record that it has not sent; "
            "send to another topic"
        )
    from hourline.cli.topics.record_lines import read_line
    from hourline.replay.sending import replay
    from hourline_core.runtime.kafka import reachable_kafka
    from hourline_core.runtime.topic_facts import describe_topic

    kafka, options = reachable_kafka(declared), declared.settings.kafka.options
    found = describe_topic(kafka, topic, options)
    needs_key = "compact" in (found.cleanup_policy or "")
    with ExitStack() as held:
        lines = held.enter_context(_stoppable(_open(file, held)))
        read = _as_value if raw else read_line
        records = (_check(read(number, line), needs_key) for number, line in enumerate(lines, start=1))
        delivered = replay(records, bootstrap=kafka, topic=topic, client_options=options, stopped=lambda: lines.stopped)
    say(f"{delivered.sent:,} record(s) were delivered to topic '{topic}'")
    if lines.stopped:
        raise typer.Exit(INTERRUPTED)


def _open(file: Path | None, held: ExitStack) -> BinaryIO:
    if file is None:
        return sys.stdin.buffer
    try:
        return held.enter_context(file.open("rb"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _as_value(number: int, line: bytes) -> "Record":
    from hourline_core.formats.files.reading import ANY_PARTITION
    from hourline_core.formats.files.record import Record

    return Record(number, line, None, ANY_PARTITION, None)


def _check(record: "Record", needs_key: bool) -> "Record":
    if needs_key and record.key is None:  # Kafka refuses it without saying why.
        raise UsageError(f"line {record.line}: it has no key, which each record of a compacted topic needs")
    return record


class _Lines:
    """The lines of ``stream`` without their line feeds, until Ctrl-C. Then a line that has not come yet is not waited
    for.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stopped = False
        self._stream, self._waits = stream, False

    def __iter__(self) -> Iterator[bytes]:
        while not self.stopped:
            self._waits = True
            try:
                line = self._stream.readline()
            except KeyboardInterrupt:
                return
            finally:
                self._waits = False
            if not line:
                return
            yield line.removesuffix(b"\n")

    def stop(self, number: int, frame: FrameType | None) -> None:
        """What Ctrl-C does. A second one raises KeyboardInterrupt."""
        self.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._waits:
            raise KeyboardInterrupt


@contextmanager
def _stoppable(stream: BinaryIO) -> Iterator[_Lines]:
    lines = _Lines(stream)
    before = signal.signal(signal.SIGINT, lines.stop)
    try:
        yield lines
    finally:
        signal.signal(signal.SIGINT, before)
