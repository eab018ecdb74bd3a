"""Fetches, compiles and runs the program of Kafka Streams."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java

_PEERS = Path(__file__).parent


@contextmanager
def kafka_streams(heap: str, commit_milliseconds: int, threads: int) -> Iterator[list[str]]:
    """The command line, within the block. The caller adds the address, the topic and the file for the answer."""
    compiler = find_java().resolve().with_name("javac")
    assert compiler.exists(), (
        f"the peer is written in Java, and there is no {compiler}: install a JDK, and set JAVA_HOME to its folder"
    )
    jars = os.pathsep.join(map(str, fetch_jars("streams", _PEERS / "jars.lock")))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([compiler, "-d", folder, "-cp", jars, _PEERS / "HourlyStreams.java"], check=True)
        java = [
            str(find_java()),
            "-XX:+UseSerialGC",
            f"-Xmx{heap}",
            "-cp",
            os.pathsep.join([folder, jars]),
            "HourlyStreams",
        ]
        yield [*java, f"{folder}/state", str(commit_milliseconds), str(threads)]
