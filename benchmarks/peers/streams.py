"""Fetches, compiles and runs the programs of Kafka Streams."""

import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java

_PEERS = Path(__file__).parent
WITH_BROKER = "streams"
"""The jars for Kafka Streams as it runs beside a broker."""
WITHOUT_BROKER = "streams_test"
"""The jars for Kafka Streams in one process, without a broker."""

WindowCount = tuple[str, int, int, int]
"""A key, the start and end of its window in milliseconds since 1970, and the number of events."""
WITH_ROCKSDB = "streams_joins"
"""The same with RocksDB, in which versioned stores and, by default, those of joined streams are. They are 73 MB, so
set-up leaves them to their tests.
"""
Pair = tuple[int, int, int]
"""The numbers of a left and a right event in the order in which all come, and the time in milliseconds since 1970."""
Alone = tuple[int, int]
"""The number of an event without a partner, and the time in milliseconds since 1970."""
Tables = Mapping[str, dict[str, str]]
"""By name, the rows of the tables that are made of orders, payments and customers: ``counts`` of the orders by status,
their joins ``inner``, ``left`` and ``outer`` with payments, and ``foreign_inner`` and ``foreign_left`` with customers.
"""


@dataclass(frozen=True)
class Row:
    """A change of a table: the new value of a key. None: it is deleted."""

    key: str
    value: str | None
    time: int
    """Milliseconds since 1970, as of the event."""


@dataclass(frozen=True)
class TableRow(Row):
    """A change of one of the tables that are joined. The value of an order is ``STATUS/CUSTOMER``; null is empty."""

    table: Literal["orders", "payments", "customers"]


@dataclass(frozen=True)
class Event:
    """An event that is joined with the table."""

    key: str | None
    time: int


@dataclass(frozen=True)
class SideEvent(Event):
    """An event of one of two streams that are joined."""

    side: Literal["left", "right"]


@dataclass(frozen=True)
class JoinWindows:
    """How much earlier and later than the left event the right one may be, and the grace: all in milliseconds."""

    before: int
    after: int
    grace: int
    kind: Literal["inner", "left", "outer", "self"] = "inner"
    """``self`` is an inner join of the left stream with itself."""


@contextmanager
def kafka_streams(
    heap: str, commit_milliseconds: int, threads: int, program: str = "HourlyStreams"
) -> Iterator[list[str]]:
    """The command line, within the block. The caller adds the address, and what the ``program`` names after it."""
    with _compiled(program, WITH_BROKER) as (folder, classes):
        java = [str(find_java()), "-XX:+UseSerialGC", f"-Xmx{heap}", "-cp", classes, program]
        yield [*java, f"{folder}/state", str(commit_milliseconds), str(threads)]


def count_in_windows(cases: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> list[set[WindowCount]]:
    """The final table of each case.

    A case has windows (``session,GAP`` or ``hopping,SIZE,EVERY``, in milliseconds), and its events in the order in
    which they come: key, and milliseconds since 1970. A key has no spaces, commas and at-signs.
    """
    found: list[set[WindowCount]] = [set() for _ in cases]
    lines = (f"{windows}\t{' '.join(f'{key}@{time}' for key, time in events)}" for windows, events in cases)
    for number, key, start, end, count in _ask("StreamsWindows", WITHOUT_BROKER, lines):
        found[int(number)].add((key, int(start), int(end), int(count)))
    return found


def join(cases: Sequence[tuple[str, Sequence[Row | Event]]]) -> list[dict[int, str | None]]:
    """For each case, the values that its events have met in the table, by their number.

    A case has the kind of its join, and rows and events in the order in which they come. ``left`` and ``inner`` join
    with a KTable, which is versioned if ``,RETENTION`` follows, in milliseconds. ``global`` is a left join with a
    GlobalKTable. Keys and values have no spaces, tabs, commas, at-signs and equal signs.
    """
    found: list[dict[int, str | None]] = [{} for _ in cases]
    lines = (f"{kind}\t{' '.join(map(_text, records))}" for kind, records in cases)
    for number, event, value in _ask("StreamsJoins", WITH_ROCKSDB, lines):
        found[int(number)][int(event)] = value or None
    return found


def join_streams(cases: Sequence[tuple[JoinWindows, Sequence[SideEvent]]]) -> list[list[Pair]]:
    """For each case, the pairs of an inner join of two streams. A case has the events in the order in which they come.
    Keys have no spaces, tabs, commas, colons and at-signs.
    """
    return [pairs for pairs, _ in join_streams_outer(cases)]


def join_streams_outer(
    cases: Sequence[tuple[JoinWindows, Sequence[SideEvent]]],
) -> list[tuple[list[Pair], list[Alone]]]:
    """The same for joins of any kind, with the events that come without a partner."""
    found: list[tuple[list[Pair], list[Alone]]] = [([], []) for _ in cases]
    lines = (
        f"{of.before},{of.after},{of.grace},{of.kind}\t{' '.join(f'{event.side}:{_text(event)}' for event in events)}"
        for of, events in cases
    )
    for number, left, right, time in _ask("StreamsPairs", WITH_ROCKSDB, lines):
        pairs, alone = found[int(number)]
        if "null" in (left, right):
            alone.append((int(right if left == "null" else left), int(time)))
        else:
            pairs.append((int(left), int(right), int(time)))
    return found


def join_tables(cases: Sequence[tuple[str, Sequence[TableRow | None]]]) -> list[list[Tables]]:
    """For each case, the tables as they stand at each None.

    A case has the kind of its tables (``table``, or ``versioned,RETENTION``, in milliseconds), and rows in the order in
    which they come. Keys and values have no spaces, tabs, commas, colons, at-signs, equal signs and exclamation marks.
    """
    found = [[defaultdict[str, dict[str, str]](dict) for row in rows if row is None] for _, rows in cases]
    lines = (
        f"{kind}\t{' '.join('!' if row is None else f'{row.table}:{_text(row)}' for row in rows)}"
        for kind, rows in cases
    )
    for number, asked, name, key, value in _ask("StreamsTables", WITH_ROCKSDB, lines):
        found[int(number)][int(asked)][name][key] = value
    return [list(one) for one in found]


def read_as_table(bootstrap: str, topic: str) -> dict[str, str]:
    """The newest value of each key in ``topic``, as a KTable of Kafka Streams has it, which reads what is committed. A
    value is ``null`` if its record is not in the partition in which Kafka Streams looks for its key.
    """
    with _compiled("StreamsReader", WITH_BROKER) as (folder, classes):
        java = [str(find_java()), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "StreamsReader"]
        command = [*java, f"{folder}/state", bootstrap, topic]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return dict(line.split("\t") for line in answer.split("\n") if line)


def _ask(program: str, jar_set: str, cases: Iterable[str]) -> list[list[str]]:
    """The answer of a program to these cases, one a line: by line, what is between its commas."""
    with _compiled(program, jar_set) as (folder, classes):
        asked = Path(folder) / "cases"
        asked.write_text("".join(f"{case}\n" for case in cases))
        java = [str(find_java()), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, program]
        answer = subprocess.run([*java, asked, f"{folder}/state"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line.split(",") for line in answer.splitlines()]


def _text(record: Row | Event) -> str:
    value = f"={record.value or ''}" if isinstance(record, Row) else ""
    return f"{record.key or ''}{value}@{record.time}"


def compiler() -> Path:
    """Where the compiler of Java is, if there is one."""
    return find_java().resolve().with_name("javac")


def fetch(jar_set: str) -> list[Path]:
    """The jars of a set, which are downloaded if they are missing. Raises SetupError if they cannot be."""
    return fetch_jars(jar_set, _PEERS / "jars.lock")


@contextmanager
def _compiled(program: str, jar_set: str) -> Iterator[tuple[str, str]]:
    """A folder, and the class path with the program, within the block."""
    assert compiler().exists(), (
        f"the peer is written in Java, and there is no {compiler()}: install a JDK, and set JAVA_HOME to its folder"
    )
    jars = os.pathsep.join(map(str, fetch(jar_set)))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([compiler(), "-d", folder, "-cp", jars, _PEERS / f"{program}.java"], check=True)
        yield folder, os.pathsep.join([folder, jars])


if __name__ == "__main__":  # Set-up fetches what the tests need.
    fetch(WITHOUT_BROKER)
