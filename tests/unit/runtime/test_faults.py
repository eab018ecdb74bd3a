"""What a library raises becomes one sentence: the first cause, the folder or the limit, and the right class."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from hourline_core.error_causes import first_cause, java_causes
from hourline_core.errors import (
    BrokerError,
    ConflictError,
    FaultError,
    HourlineError,
    KafkaAwayError,
    KafkaForbidsError,
    RegistryForbidsError,
    ResourceError,
    SetupError,
    SourceError,
    SparkError,
    TableError,
    UsageError,
)
from hourline_core.faults import explain_fault, log_fault
from hourline_core.machine import Surroundings
from tests.support import raised
from tests.support.raised import FULL_FILE, FULL_LOG, TABLE, WORKER

AROUND = Surroundings([Path("/data/shop/.hourline")], "broker-1:9092", "1g", "8g")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FULL_LOG, ResourceError, "the disk of /data/shop/.hourline is full"),
        (FULL_FILE, ResourceError, "the disk of /data/shop/.hourline is full"),
        (raised.FULL_JAVA, ResourceError, "the disk of /data/shop/.hourline is full"),
        (OSError(errno.ENOSPC, "No space left on device", "/mnt/x"), ResourceError, "the disk of /mnt/x is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), ResourceError, "the disk quota of /data/shop"),
        (OSError("File too large (os error 27)"), ResourceError, "`ulimit -f`"),
        (raised.READ_ONLY, ResourceError, "/data/shop/.hourline is read-only"),
        (OSError(errno.EROFS, "Read-only file system", "/data/shop/.hourline/run"), ResourceError, "is read-only"),
        (OSError(errno.EMFILE, "Too many open files"), ResourceError, "`ulimit -n`"),
        (OSError(errno.EIO, "Input/output error"), ResourceError, "failed to read or write"),
        (OSError(errno.ENOLCK, "No locks available"), ResourceError, "the disk of /data/shop/.hourline gives no file"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), SetupError, "/data/x may not be read or"),
        (PermissionError(errno.EPERM, "Operation not permitted", b"/data/x"), SetupError, "/data/x may not be read or"),
        (raised.FORBIDDEN_FOLDER, SetupError, f"{TABLE} may not be read or written"),
        (raised.FORBIDDEN_FILE, SetupError, f"{TABLE}/part-0 may not be read or written"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/x"), SetupError, "/data/x is not there"),
        (raised.NO_FILE, SetupError, f"{TABLE}/part-0.parquet is not there"),
        (OSError(errno.ESTALE, "Stale file handle", TABLE), ResourceError, f"{TABLE} was lost by its network disk"),
        (OSError(errno.ELOOP, "Too many symbolic links", "/data/x"), SetupError, "refused /data/x (too many levels of"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", f"{__file__}/x"), SetupError, f"{__file__} is a file"),
        (MemoryError(), ResourceError, "memory of this machine"),
        (RuntimeError("can't start new thread"), ResourceError, "`ulimit -u`"),
        (raised.THREADS, ResourceError, "`ulimit -u`"),
        (raised.BUFFERS, ResourceError, "raise spark.driver_memory"),
        (raised.CLASSES, ResourceError, "raise -XX:MaxMetaspaceSize"),
        (raised.DUCKDB, ResourceError, "DuckDB's memory limit of 12.4 GiB is reached"),
        (
            raised.DUCKDB_IN_TASK,
            ResourceError,
            "its 12.4 GiB, the part of a core in spark.worker_memory (8g); raise that",
        ),
        (raised.DUCKDB_COMMIT_IN_TASK, ResourceError, "its 9.5 MiB, the part of a core in spark.worker_memory (8g)"),
        (
            raised.DUCKDB_IN_UDF,
            ResourceError,
            "its 12.4 GiB, the part of a core in spark.worker_memory (8g); raise that",
        ),
        (
            raised.REGISTRY_IN_UDF,
            RegistryForbidsError,
            "the schema registry at http://r:8081 does not let this user in",
        ),
        (raised.CLIENT_AWAY, KafkaAwayError, "Kafka at broker-1:9092 does not answer (its words)"),
        (raised.CLIENT_FORBIDDEN, KafkaForbidsError, "Kafka at broker-1:9092 has refused (its words)"),
        (raised.CLIENT_REFUSED, BrokerError, "Kafka at broker-1:9092 has refused (its words)"),
        (raised.UNKNOWN_HOST, KafkaAwayError, "Kafka at broker-1:9092 cannot be found"),
        (raised.HEAP, ResourceError, "the memory of 1g of Spark's Java is used up; raise spark.driver_memory"),
        (
            raised.AWAY,
            KafkaAwayError,
            "Kafka at broker-1:9092 does not answer (Timed out waiting for a node assignment",
        ),
        (
            raised.REFUSED,
            KafkaForbidsError,
            "Kafka at broker-1:9092 has refused (Not authorized to access topics: [visits])",
        ),
        (
            raised.NO_LEADER,
            KafkaAwayError,
            "Kafka at broker-1:9092 does not answer (For requests intended only for the leader",
        ),
        (raised.WRONG_PASSWORD, KafkaForbidsError, "Kafka at broker-1:9092 has refused (Authentication failed"),
        (
            raised.NO_TOPIC,
            BrokerError,
            "Kafka at broker-1:9092 has refused (This server does not host this topic-partition",
        ),
        (
            raised.WRONG_OPTION,
            BrokerError,
            "Kafka at broker-1:9092 has refused (Invalid value none for configuration acks",
        ),
        (
            raised.CORRUPT,
            SourceError,
            "records of Kafka at broker-1:9092 cannot be read (Record batch for partition visits-0",
        ),
        (raised.UNKNOWN_CODEC, SourceError, "cannot be read (Unknown compression type id: 7)"),
        (raised.NOT_SENT, KafkaAwayError, "Kafka at broker-1:9092 does not answer (Cannot fetch record for offset 40"),
        (WORKER, SparkError, "Spark failed (ValueError: the sketch is garbage)"),
        (KeyError("hour"), FaultError, "a fault of Hourline: KeyError: 'hour'"),
        (
            PermissionError(errno.EPERM, "Operation not permitted"),
            FaultError,
            "PermissionError: [Errno 1] Operation not",
        ),
        (ValueError("Permission denied for gate A"), FaultError, "a fault of Hourline: ValueError: Permission denied"),
    ],
)
def test_the_first_cause_is_told(error: Exception, kind: type[HourlineError], words: str) -> None:
    told = explain_fault(error, AROUND, what="it stopped", then="nothing is lost")
    assert type(told) is kind
    assert words in str(told)
    assert str(told).startswith("it stopped: ")
    assert str(told).endswith("; nothing is lost")
    assert not set("\n\t\x1b↳") & set(str(told)), str(told)


def test_a_worker_without_declared_memory_is_told_of_the_setting() -> None:
    told = explain_fault(raised.DUCKDB_IN_TASK, Surroundings())
    assert "its 12.4 GiB, the part of a core in 40 % of the machine's memory" in str(told)
    assert "set spark.worker_memory" in str(told)


def test_a_disk_that_is_mounted_within_the_tables_is_named_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in ("/data", "/data/shop/.hourline/tables/final"))
    for file, folder in (("tables/final/turnover/part-0", "/tables/final"), ("tables/events/sales/part-0", "")):
        error = OSError(errno.EROFS, "Read-only file system", f"/data/shop/.hourline/{file}")
        assert str(explain_fault(error, AROUND)).startswith(f"/data/shop/.hourline{folder} is read-only")


def test_the_disk_is_named_by_the_deepest_folder_that_holds_the_file() -> None:
    around = Surroundings([Path("/data/shop/.hourline"), Path("/data/shop/.hourline/tables")])
    for file, folder in (("tables/visits/part-0", "/data/shop/.hourline/tables"), ("run/x", "/data/shop/.hourline")):
        error = OSError(errno.ENOSPC, "No space left on device", f"/data/shop/.hourline/{file}")
        assert f"the disk of {folder} is full" in str(explain_fault(error, around))


@pytest.mark.parametrize("kind", [TableError, SetupError, SparkError])
def test_an_error_of_ours_that_a_full_disk_has_caused_says_so(kind: type[HourlineError]) -> None:
    try:
        raise kind("the table at x cannot be read") from FULL_FILE
    except kind as error:
        assert "the disk of /data/shop/.hourline is full" in str(explain_fault(error, AROUND))


@pytest.mark.parametrize("kind", [UsageError, ConflictError, TableError, BrokerError])
def test_an_error_of_ours_is_told_as_it_is(kind: type[HourlineError]) -> None:
    error = kind("its sentence")
    error.__context__ = KeyError("x")
    assert explain_fault(error, AROUND, then="nothing is lost") is error


def raised_while_handling(error: Exception, handled: Exception, *, hidden: bool = False) -> Exception:
    error.__context__, error.__suppress_context__ = handled, hidden
    return error


def test_what_was_handled_is_a_cause_only_if_no_program_expects_it() -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/shop/.hourline/x")
    told = str(explain_fault(raised_while_handling(KeyError("hour"), missing), AROUND))
    assert "a fault of Hourline: KeyError: 'hour'" in told, "its name and words are those of one exception"
    full = OSError(errno.ENOSPC, "No space left on device")
    assert "is full" in str(explain_fault(raised_while_handling(KeyError("hour"), full), AROUND))
    hidden = raised_while_handling(KeyError("hour"), full, hidden=True)
    assert "a fault of Hourline: KeyError: 'hour'" in str(explain_fault(hidden, AROUND))


def test_a_fault_is_told_with_its_first_cause() -> None:
    try:
        raise RuntimeError("it failed") from KeyError("hour")
    except RuntimeError as error:
        assert "a fault of Hourline: KeyError: 'hour'" in str(explain_fault(error, AROUND))


@pytest.mark.parametrize("path", ["/data/shop/.hourline2/x", "/mnt/data/shop/.hourline/x"])
def test_a_folder_with_a_name_that_is_like_another_is_not_meant(path: str) -> None:
    told = str(explain_fault(OSError(errno.EFBIG, "File too large", path), AROUND))
    assert f"a file in {path}" in told
    told = str(explain_fault(DeltaError(f"Unable to open {path}: Read-only file system (os error 30)"), Surroundings()))
    assert told == "this machine is read-only; make it writable"


@pytest.fixture
def memory_limit() -> Iterator[int]:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64_000_000_000_000, limits[1]))
    yield 64_000
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_memory_limit_is_named(memory_limit: int) -> None:
    assert f"the memory limit of {memory_limit}.0 GB (`ulimit -v`)" in str(explain_fault(MemoryError(), AROUND))


def test_the_full_disk_is_named_among_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "full"

    class Free:
        f_bavail, f_frsize, f_flag = 10**6, 4096, 0

    class Full(Free):
        f_bavail = 0

    monkeypatch.setattr("os.statvfs", lambda folder: Full if folder == full else Free)
    around = Surroundings([tmp_path / "free", full])
    assert f"the disk of {full} is full" in str(explain_fault(FULL_LOG, around))


def test_the_trace_goes_to_the_log_with_what_java_said(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "errors.log"
    assert log_fault(WORKER, log, "hourline recompute")
    assert log_fault(KeyError("hour"), log, "hourline plan")
    text = log.read_text()
    for part in ("hourline recompute", "at org.apache.spark.api.python.BasePythonRunner", "KeyError: 'hour'"):
        assert part in text
    assert not log_fault(WORKER, Path("/proc/nothing/errors.log"), "hourline recompute")


def test_a_long_message_is_shortened() -> None:
    assert len(first_cause(["x" * 5000])) < 400


def test_all_causes_that_java_names_are_told_from_the_first_error_to_its_first_cause() -> None:
    trace = """26/11/27 02:00:00 ERROR SparkContext: Error initializing SparkContext.
java.io.IOException: failure to login: javax.security.auth.login.LoginException: java.lang.NullPointerException
\tat org.apache.hadoop.security.UserGroupInformation.doSubjectLogin(UserGroupInformation.java:1905)
Caused by: javax.security.auth.login.LoginException
\tat com.sun.security.auth.UnixPrincipal.<init>(UnixPrincipal.java:71)
Caused by: java.lang.NullPointerException: invalid null input: name
\t... 13 more
Exception in thread "main" java.nio.file.InvalidPathException: Malformed input: größe
"""
    assert java_causes(trace) == [
        "IOException: failure to login: javax.security.auth.login.LoginException: java.lang.NullPointerException",
        "LoginException",
        "NullPointerException: invalid null input: name",
        "InvalidPathException: Malformed input: größe",
    ]
    told = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: java.lang.Exception: a\n\tat b"
    assert java_causes(told) == ["Exception: a"]
    assert java_causes("nothing of Java") == []
