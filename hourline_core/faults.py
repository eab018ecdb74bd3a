"""Turns what Spark, Java, Kafka, delta-rs, Arrow, DuckDB or the system raises into an error with one sentence.

The exception that arrives is seldom the cause: Spark wraps Kafka's in its own and adds a Java trace, delta-rs puts
colours around the system's words. So the whole chain is searched, and its first cause decides. Libraries are known by
the names of their modules. So this imports none of them, and reading needs no Spark.
"""

import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from hourline_core.error_causes import CAUSED_BY, chain, first_cause, place_in_hourline, texts_of
from hourline_core.errors import (
    BrokerError,
    FaultError,
    HourlineError,
    KafkaAwayError,
    KafkaForbidsError,
    RegistryAwayError,
    RegistryForbidsError,
    ResourceError,
    SetupError,
    SourceError,
    SparkError,
    TableError,
)
from hourline_core.kafka_refusals import find_options_to_check, without_noise
from hourline_core.machine import Surroundings, Told, explain_refusal

_KAFKA = "org.apache.kafka."
_OF_BROKERS = f"{_KAFKA}common.errors."
_READER = "org.apache.spark.sql.kafka010.consumer."
"""In a Java trace: Spark was reading records."""
_AWAY = (
    *("TimeoutException", "DisconnectException", "NetworkException", "BrokerNotAvailableException", "KafkaException"),
    *("LeaderNotAvailableException", "NotLeaderOrFollowerException", "OffsetNotAvailableException"),
    *("LeaderEpochException", "KafkaStorageException", "NotControllerException"),
    *("CoordinatorNotAvailableException", "CoordinatorLoadInProgressException", "NotCoordinatorException"),
    # What confluent_kafka tells beside these.
    *(
        "TransportException",
        "TimedOutException",
        "TimedOutQueueException",
        "AllBrokersDownException",
        "ResolveException",
    ),
    "NotLeaderForPartitionException",
)
_UNKNOWN_HOST = "No resolvable bootstrap urls"
_FORBIDS = re.compile("Authorization|Authentication|Sasl")
_REGISTRY_ERRORS: dict[str, type[HourlineError]] = {
    one.__name__: one for one in (RegistryAwayError, RegistryForbidsError)
}
_OF_REGISTRY = re.compile(rf"^hourline_core\.errors\.({'|'.join(_REGISTRY_ERRORS)}): (.*)$", re.MULTILINE)
_OF_DEAD_JAVA = ("Py4JError", "Py4JNetworkError")

_WRAPPERS = (TableError, SetupError, SparkError, FaultError)
"""Errors of Hourline that may have a cause that says more than they do."""


def explain_fault(error: BaseException, around: Surroundings, *, what: str = "", then: str = "") -> HourlineError:
    """An error with one sentence about ``error``: ``what`` stopped, such as "the stream of source 'x' stopped", the
    first cause, and ``then``, what is safe and what to do.

    An error of Hourline's is returned as it is, unless the machine's disk or memory caused it.
    """
    found = explain_refusal(error, around)
    if isinstance(error, HourlineError) and not (isinstance(error, _WRAPPERS) and found and found[0] is ResourceError):
        return error
    kind, sentence = found or _of_library(error, around)
    return kind("; ".join(part for part in (f"{what}: {sentence}" if what else sentence, then) if part))


def log_fault(error: BaseException, log: Path, doing: str) -> bool:
    """Append the stack trace of ``error`` to the file ``log``, and return whether that was possible."""
    trace = "".join(traceback.format_exception(error))
    words = "\n".join(dict.fromkeys(texts_of(chain(error))))
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {doing}\n{trace}{words}\n\n")
        return True
    return False


def _of_library(error: BaseException, around: Surroundings) -> Told:
    """What else a library, or Hourline itself, has raised."""
    errors = [*chain(error, handled=False)]
    texts = [*texts_of(errors)]
    client = dict(_of_client(errors))
    cause = next(iter(client.values()), first_cause(texts))
    names = [*client, *(name for text in texts for name, _ in CAUSED_BY.findall(text))]
    reading = any(_READER in text for text in texts)
    if reading or any(name.startswith(_KAFKA) for name in names):
        told = [cause, *(words for text in texts for _, words in CAUSED_BY.findall(text))]
        return _of_kafka(names, told, reading, around.kafka or "the address in hourline.yaml")
    called = {Path(frame.filename).parent.name for frame in traceback.extract_tb(error.__traceback__)}
    if type(error).__name__ in _OF_DEAD_JAVA or (isinstance(error, ConnectionError) and "py4j" in called):
        logs = f" (its log is in {around.folders[0]}/logs)" if around.folders else ""
        return SparkError, f"Spark's Java process has ended{logs}"
    if {type(one).__module__.partition(".")[0] for one in errors} & {"pyspark", "py4j"}:
        # Of an error in a function that Spark calls, there is its text alone.
        if of_registry := next((found for text in texts if (found := _OF_REGISTRY.search(text))), None):
            return _REGISTRY_ERRORS[of_registry[1]], of_registry[2]
        return SparkError, f"Spark failed ({cause})"
    first = errors[-1]
    place = place_in_hourline(first) or place_in_hourline(error)
    return FaultError, f"a fault of Hourline: {type(first).__name__}: {first_cause([*texts_of([first])])}{place}"


def _of_client(errors: Iterable[BaseException]) -> Iterator[tuple[str, str]]:
    """The errors of confluent_kafka, each by the name that Java has for most of them, with its words."""
    for one in errors:
        if type(one).__module__ == "cimpl" and one.args and hasattr(one.args[0], "name"):
            name = re.sub("_(ERROR|EXCEPTION)$", "", one.args[0].name()).title().replace("_", "")
            yield f"{_OF_BROKERS}{name}Exception", one.args[0].str()


def _of_kafka(names: list[str], told: list[str], reading: bool, address: str) -> Told:
    """``told`` are the words of all causes, and first those of the first one."""
    cause = told[0]
    if _UNKNOWN_HOST in cause:
        return KafkaAwayError, f"Kafka at {address} cannot be found: its host name cannot be resolved"
    if reading and not any(name.startswith(_OF_BROKERS) or name.endswith("TimeoutException") for name in names):
        return SourceError, f"records of Kafka at {address} cannot be read ({cause})"
    remedy = _remedy(names, told)
    if remedy or any(_FORBIDS.search(name) for name in names):
        return KafkaForbidsError, f"Kafka at {address} has refused ({without_noise(cause)}){remedy}"
    if any(name.endswith(_AWAY) for name in names) and not any(name.endswith("ConfigException") for name in names):
        return KafkaAwayError, f"Kafka at {address} does not answer ({cause})"
    return BrokerError, f"Kafka at {address} has refused ({cause})"


def _remedy(names: list[str], told: list[str]) -> str:
    """What to do about a refusal, if it is about a right or an option."""
    if any("TopicAuthorization" in name for name in names):
        return "; give this user the right READ on that topic"
    options = next((found for words in told if (found := find_options_to_check(words))), None)
    return f"; check {options} of kafka.options in hourline.yaml" if options else ""
