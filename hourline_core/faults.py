"""Turns what Spark, Java, Kafka, delta-rs, Arrow, DuckDB or the system raises into an error with one sentence.

The exception that arrives is seldom the cause: Spark wraps Kafka's in its own and adds a Java trace, delta-rs puts
colours around the system's words. So the whole chain is searched, and its first cause decides. Libraries are known by
the names of their modules. So this imports none of them, and reading needs no Spark.
"""

import errno
import os
import re
import resource
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hourline_core.causes import CAUSED_BY, chain, errno_of, first_cause, place_in_hourline, texts_of
from hourline_core.errors import (
    BrokerError,
    FaultError,
    HourlineError,
    KafkaAwayError,
    KafkaForbidsError,
    ResourceError,
    SetupError,
    SourceError,
    SparkError,
    TableError,
)

_KAFKA = "org.apache.kafka."
_OF_BROKERS = f"{_KAFKA}common.errors."
_READER = "org.apache.spark.sql.kafka010.consumer."
"""In a Java trace: Spark was reading records."""
_AWAY = (
    *("TimeoutException", "DisconnectException", "NetworkException", "BrokerNotAvailableException", "KafkaException"),
    *("LeaderNotAvailableException", "NotLeaderOrFollowerException", "OffsetNotAvailableException"),
    *("LeaderEpochException", "KafkaStorageException", "NotControllerException"),
    *("CoordinatorNotAvailableException", "CoordinatorLoadInProgressException", "NotCoordinatorException"),
)
_FORBIDS = re.compile("Authorization|Authentication|Sasl")
_OF_DEAD_JAVA = ("Py4JError", "Py4JNetworkError")

_MEMORY_WORDS = (
    "OutOfMemoryError",
    "Out of Memory Error",
    "Could not reserve enough space",
    "insufficient memory for the Java Runtime Environment",
    "unable to create native thread",
    "can't start new thread",
)
_WRAPPERS = (TableError, SetupError, SparkError, FaultError)
"""Errors of Hourline that may have a cause that says more than they do."""


@dataclass(frozen=True)
class Surroundings:
    """What a process works with, for the sentence."""

    folders: Sequence[Path] = ()
    """Where it writes."""
    kafka: str | None = None
    """The address of its Kafka."""
    java_memory: str | None = None
    """The setting ``spark.driver_memory``."""


def explain_fault(error: BaseException, around: Surroundings, *, what: str = "", then: str = "") -> HourlineError:
    """An error with one sentence about ``error``: ``what`` stopped, such as "the stream of source 'x' stopped", the
    first cause, and ``then``, what is safe and what to do.

    An error of Hourline's is returned as it is, unless the machine's disk or memory caused it.
    """
    texts = list(texts_of(error))
    found = _of_machine(error, texts, around)
    if isinstance(error, HourlineError) and not (isinstance(error, _WRAPPERS) and found and found[0] is ResourceError):
        return error
    kind, sentence = found or _of_library(error, texts, around)
    return kind("; ".join(part for part in (f"{what}: {sentence}" if what else sentence, then) if part))


def log_fault(error: BaseException, log: Path, doing: str) -> bool:
    """Append the stack trace of ``error`` to the file ``log``, and return whether that was possible."""
    trace = "".join(traceback.format_exception(error))
    words = "\n".join(dict.fromkeys(texts_of(error)))
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {doing}\n{trace}{words}\n\n")
        return True
    return False


def _of_machine(error: BaseException, texts: list[str], around: Surroundings) -> tuple[type[HourlineError], str] | None:
    """What the system refused. None: it refused nothing."""
    number = errno_of(error, texts)
    if number == errno.ENOMEM or any(isinstance(one, MemoryError) for one in chain(error)) or _memory_in(texts):
        return ResourceError, _memory_sentence(texts, around)
    folder = _folder(error, texts, around, number)
    sentences: dict[int | None, tuple[type[HourlineError], str]] = {
        errno.ENOSPC: (ResourceError, f"the disk of {folder} is full; make room there"),
        errno.EDQUOT: (ResourceError, f"the disk quota of {folder} is used up; make room there"),
        errno.EFBIG: (
            ResourceError,
            f"a file in {folder} has reached the limit of a file's size (`ulimit -f`); raise the limit",
        ),
        errno.EROFS: (ResourceError, f"{folder} is read-only; make it writable"),
        errno.EACCES: (SetupError, f"{folder} may not be read or written by this user; change its permissions"),
        errno.EIO: (ResourceError, f"the disk of {folder} failed to read or write (input/output error); look at it"),
    }
    files = (ResourceError, f"the limit of open files ({_limit(resource.RLIMIT_NOFILE)}, `ulimit -n`) is reached")
    sentences |= {errno.EMFILE: files, errno.ENFILE: files}
    return sentences.get(number)


def _of_library(error: BaseException, texts: list[str], around: Surroundings) -> tuple[type[HourlineError], str]:
    """What else a library, or Hourline itself, has raised."""
    cause = first_cause(texts)
    modules = {type(one).__module__.partition(".")[0] for one in chain(error)}
    names = [name for text in texts for name, _ in CAUSED_BY.findall(text)]
    reading = any(_READER in text for text in texts)
    if reading or any(name.startswith(_KAFKA) for name in names) or modules & {"confluent_kafka", "cimpl"}:
        return _of_kafka(names, cause, reading, around.kafka or "the address in hourline.yaml")
    called = {Path(frame.filename).parent.name for frame in traceback.extract_tb(error.__traceback__)}
    if type(error).__name__ in _OF_DEAD_JAVA or (isinstance(error, ConnectionError) and "py4j" in called):
        logs = f" (its log is in {around.folders[0]}/logs)" if around.folders else ""
        return SparkError, f"Spark's Java process has ended{logs}"
    if modules & {"pyspark", "py4j"}:
        return SparkError, f"Spark failed ({cause})"
    return FaultError, f"a fault of Hourline: {type(error).__name__}: {cause}{place_in_hourline(error)}"


def _of_kafka(names: list[str], cause: str, reading: bool, address: str) -> tuple[type[HourlineError], str]:
    if reading and not any(name.startswith(_OF_BROKERS) or name.endswith("TimeoutException") for name in names):
        return SourceError, f"records of Kafka at {address} cannot be read ({cause})"
    if any(_FORBIDS.search(name) for name in names):
        return KafkaForbidsError, f"Kafka at {address} has refused ({cause})"
    if any(name.endswith(_AWAY) for name in names):
        return KafkaAwayError, f"Kafka at {address} does not answer ({cause})"
    return BrokerError, f"Kafka at {address} has refused ({cause})"


def _memory_in(texts: list[str]) -> bool:
    return any(words in text for text in texts for words in _MEMORY_WORDS)


def _memory_sentence(texts: list[str], around: Surroundings) -> str:
    if any("OutOfMemoryError: Java heap space" in text or "GC overhead limit" in text for text in texts):
        memory = f" of {around.java_memory}" if around.java_memory else ""
        return f"the memory{memory} of Spark's Java is used up; raise spark.driver_memory in hourline.yaml"
    if (limit := _limit(resource.RLIMIT_AS)) is not None:
        return f"the memory limit of {limit / 1e9:.1f} GB (`ulimit -v`) is reached; raise it"
    return "the memory of this machine is used up; end other processes, or lower speed.max_records_per_batch"


def _limit(of: int) -> int | None:
    soft = resource.getrlimit(of)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _folder(error: BaseException, texts: list[str], around: Surroundings, number: int | None) -> str:
    """The folder that the fault is about: the one that is named, else the one that is in that state."""
    named = [str(one.filename) for one in chain(error) if isinstance(one, OSError) and one.filename]
    for folder in around.folders:
        if any(name.startswith(str(folder)) for name in named) or any(f"{folder}/" in text for text in texts):
            return str(folder)
    for folder in around.folders:
        with suppress(OSError):
            state = os.statvfs(folder)
            if (number == errno.EROFS and state.f_flag & os.ST_RDONLY) or (
                number == errno.ENOSPC and state.f_bavail * state.f_frsize < 1_000_000
            ):
                return str(folder)
    return named[0] if named else str(next(iter(around.folders), "this machine"))
