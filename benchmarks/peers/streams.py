"""Fetches, compiles and runs the programs of Kafka Streams."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java

_PEERS = Path(__file__).parent
WITHOUT_BROKER = "streams_test"
"""The jars for Kafka Streams in one process, without a broker."""

WindowCount = tuple[str, int, int, int]
"""A key, the start and end of its window in milliseconds since 1970, and the number of events."""


@contextmanager
def kafka_streams(heap: str, commit_milliseconds: int, threads: int) -> Iterator[list[str]]:
    """The command line, within the block. The caller adds the address, the topic and the file for the answer."""
    with _compiled("HourlyStreams", "streams") as (folder, classes):
        java = [str(find_java()), "-XX:+UseSerialGC", f"-Xmx{heap}", "-cp", classes, "HourlyStreams"]
        yield [*java, f"{folder}/state", str(commit_milliseconds), str(threads)]


def count_in_windows(cases: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> list[set[WindowCount]]:
    """The final table of each case.

    A case has windows (``session,GAP`` or ``hopping,SIZE,EVERY``, in milliseconds), and its events in the order in
    which they come: key, and milliseconds since 1970. A key has no spaces, commas and at-signs.
    """
    with _compiled("StreamsWindows", WITHOUT_BROKER) as (folder, classes):
        asked = Path(folder) / "cases"
        lines = (f"{windows}\t{' '.join(f'{key}@{time}' for key, time in events)}\n" for windows, events in cases)
        asked.write_text("".join(lines))
        java = [str(find_java()), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "StreamsWindows"]
        answer = subprocess.run([*java, asked], check=True, stdout=subprocess.PIPE, text=True).stdout
    found: list[set[WindowCount]] = [set() for _ in cases]
    for line in answer.splitlines():
        number, key, start, end, count = line.split(",")
        found[int(number)].add((key, int(start), int(end), int(count)))
    return found


def compiler() -> Path:
    """Where the compiler of Java is, if there is one."""
    return find_java().resolve().with_name("javac")


@contextmanager
def _compiled(program: str, jar_set: str) -> Iterator[tuple[str, str]]:
    """A folder, and the class path with the program, within the block."""
    assert compiler().exists(), (
        f"the peer is written in Java, and there is no {compiler()}: install a JDK, and set JAVA_HOME to its folder"
    )
    jars = os.pathsep.join(map(str, fetch_jars(jar_set, _PEERS / "jars.lock")))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([compiler(), "-d", folder, "-cp", jars, _PEERS / f"{program}.java"], check=True)
        yield folder, os.pathsep.join([folder, jars])


if __name__ == "__main__":  # Set-up fetches what the tests need.
    fetch_jars(WITHOUT_BROKER, _PEERS / "jars.lock")
