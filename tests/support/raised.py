"""Exceptions as libraries raise them, with their own words."""

import duckdb
from confluent_kafka import KafkaError, KafkaException
from deltalake.exceptions import DeltaError

TABLE = "/data/shop/.hourline/tables/events/visits"


class FromJava(Exception):  # noqa: N818 - as PySpark's are called
    """As PySpark passes an exception of Java on."""

    def __init__(self, said: str, trace: str) -> None:
        super().__init__(said)
        self._desc, self._stackTrace = said, trace

    def __str__(self) -> str:
        raise ConnectionRefusedError("Java has ended, and cannot be asked")


FromJava.__module__ = "pyspark.errors.exceptions.captured"

FULL_LOG = OSError(
    "Generic LocalFileSystem error\n          \x1b[31m↳\x1b[0m Unable to copy data to file\n"
    "           \x1b[31m↳\x1b[0m No space left on device (os error 28)\n"
)
FULL_FILE = DeltaError(
    "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data to file: No space left on "
    "device (os error 28)"
)
FULL_JAVA = FromJava(
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times",
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)\n"
    "Caused by: java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch.FileDispatcherImpl.write0",
)


class PanicException(BaseException):
    """As delta-rs passes a panic on."""


PANIC = PanicException("called `Result::unwrap()` on an `Err` value: No space left on device (os error 28)")
READ_ONLY = DeltaError(
    f"Failed to parse parquet: External: Generic LocalFileSystem error: Unable to open file {TABLE}/part-0.parquet#1: "
    "Read-only file system (os error 30)"
)
HEAP, BUFFERS, CLASSES, THREADS = (
    FromJava(said, f"java.lang.OutOfMemoryError: {said}\n\tat java.base/java.util.Arrays")
    for said in (
        "Java heap space",
        "Cannot reserve 1048576 bytes of direct buffer memory (allocated: 9, limit: 9)",
        "Metaspace",
        "unable to create native thread: possibly out of memory or process/resource limits reached",
    )
)
DUCKDB = duckdb.OutOfMemoryException(
    "Out of Memory Error: failed to allocate data of size 1.0 GiB (12.3 GiB/12.4 GiB used)\nPossible solutions:\n"
)
DUCKDB_IN_TASK = duckdb.OutOfMemoryException(*DUCKDB.args)
DUCKDB_IN_TASK.add_note("Traceback (most recent call last):\n")
DUCKDB_COMMIT_IN_TASK = duckdb.TransactionException(
    "TransactionContext Error: Failed to commit: could not allocate block of size 256.0 KiB (9.3 MiB/9.5 MiB used)\n"
)
DUCKDB_COMMIT_IN_TASK.add_note("Traceback (most recent call last):\n")
DUCKDB_IN_UDF = FromJava(
    "Job aborted due to stage failure",
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    f'  File "/lib/pyspark/worker.py", line 1, in main\n    process()\n_duckdb.OutOfMemoryException: {DUCKDB}\n\n'
    "\tat org.apache.spark.api.python.BasePythonRunner\n",
)
REGISTRY_FORBIDS = "the schema registry at http://r:8081 does not let this user in"
REGISTRY_IN_UDF = FromJava(
    "Job aborted due to stage failure",
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/lib/pyspark/worker.py", line 1, in main\n    process()\n'
    f"hourline_core.errors.RegistryForbidsError: {REGISTRY_FORBIDS}\n\n"
    "\tat org.apache.spark.api.python.BasePythonRunner\n",
)
NO_FILE = DeltaError(f"Object at location {TABLE}/part-0.parquet not found: No such file or directory (os error 2)")
FORBIDDEN_FOLDER = DeltaError(
    f'Could not create local directory: {TABLE} Error: Os {{ code: 13, kind: PermissionDenied, message: "Permission '
    'denied" }'
)
FORBIDDEN_FILE = FromJava(
    "failed", f"java.io.FileNotFoundException: {TABLE}/part-0 (Permission denied)\n\tat java.base"
)
AWAY = FromJava(
    "[STREAM_FAILED] Query [id = 1] terminated with exception: Timed out waiting for a node assignment",
    "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated\n"
    "\tat org.apache.spark.sql.execution.streaming.StreamExecution.run\n"
    "Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out\n"
    "\tat java.base/java.util.concurrent.CompletableFuture.reportGet\n"
    "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: x\n",
)
REFUSED = FromJava(
    "not authorized",
    "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [visits]\n"
    "\tat org.apache.kafka",
)
NO_LEADER, NO_TOPIC, WRONG_OPTION, WRONG_PASSWORD = (
    FromJava("refused", f"Caused by: org.apache.kafka.common.{cause}\n\tat org.apache.kafka")
    for cause in (
        "errors.NotLeaderOrFollowerException: For requests intended only for the leader",
        "errors.UnknownTopicOrPartitionException: This server does not host this topic-partition",
        "KafkaException: Failed to create new KafkaAdminClient\n\tat org.apache.kafka\n"
        "Caused by: org.apache.kafka.common.config.ConfigException: Invalid value none for configuration acks",
        "errors.SaslAuthenticationException: Authentication failed",
    )
)
CLIENT_AWAY, CLIENT_FORBIDDEN, CLIENT_REFUSED = (
    KafkaException(KafkaError(code, "its words"))
    for code in (KafkaError._TRANSPORT, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART)
)
_WHILE_READING = (
    "Job aborted due to stage failure",
    "org.apache.spark.SparkException: Job aborted due to stage failure\n\tat org.apache.spark.scheduler.DAGScheduler\n"
    "Caused by: CAUSE\n\tat org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.fetchData(KafkaDataConsumer.scala)",
)
CORRUPT, UNKNOWN_CODEC, NOT_SENT, UNKNOWN_HOST = (
    FromJava(_WHILE_READING[0], _WHILE_READING[1].replace("CAUSE", cause))
    for cause in (
        "org.apache.kafka.common.KafkaException: Record batch for partition visits-0 at offset 40 is invalid",
        "java.lang.IllegalArgumentException: Unknown compression type id: 7",
        "java.util.concurrent.TimeoutException: Cannot fetch record for offset 40 in 120000 milliseconds",
        "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\n\tat org.apache.kafka\n"
        "Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in "
        "bootstrap.servers",
    )
)
WORKER = FromJava(
    "[PYTHON_EXCEPTION] Python exception occurred while executing the UDF",
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/lib/pyspark/worker.py", line 1, in main\n'
    "    process()\n"
    "ValueError: the sketch is garbage\n\n\tat org.apache.spark.api.python.BasePythonRunner\n",
)
