"""The one builder of Spark sessions."""

import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.runtime.class_archives import sharing_options
from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java

# Both layers evaluate the declared expressions under exactly these rules, or their numbers would differ.
_SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    # A bad cast or a division by zero in a declared expression gives null; in ANSI mode one such record would stop the
    # stream.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
}

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The state of a Delta table's log is rebuilt in 50 tasks by default: seconds on one machine, for logs of a few
    # hundred lines.
    "spark.databricks.delta.snapshotPartitions": "1",
    # What is held in memory is held for seconds: compressing it takes longer than all that is done with it.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}

# Java's second compiler is for what runs for each record, which comes to ten times its usual thresholds within a
# micro-batch. At the usual ones it would also compile what runs a few times in each, such as Spark's planning, which
# takes more CPU time than it gives.
_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
)

_ON_THIS_MACHINE = {
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # Whatever the machine's name resolves to, no other one needs to reach the driver.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def spark_session(
    project: Project, name: str, extra: dict[str, str] | None = None, *, brief: bool = False
) -> SparkSession:
    """The Spark session of this process, made on the project's settings; ``spark.config`` there overrides the defaults,
    not the semantics.

    A ``brief`` one does without Java's second compiler, which in a minute of work takes more than it gives.

    Raises SetupError when Java or the jars cannot be had.
    """
    settings = project.settings.spark
    find_java()  # Spark follows the same order in looking for it, but has no clear words when there is none
    for name_of_log in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark logs each of its errors with a stack trace, beside raising it.
        PySparkLogger.getLogger(name_of_log).disabled = True
    logging.getLogger().addFilter(_no_trace_of_py4j)
    # Workers would otherwise run whatever python3 is first on the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    jars = fetch_jars("spark")
    local = settings.master.partition("[")[0] == "local"
    logs = project.workspace / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log4j = logs / "log4j2-spark.properties"
    log4j.write_text(_LOG4J)
    builder = SparkSession.builder.appName(f"hourline-{name}").master(settings.master)
    config = {
        **_DEFAULTS,
        # On the class path from the start, as only classes from there are shared (see class_archives.py); behind what
        # the settings put there.
        "spark.driver.defaultExtraClassPath": os.pathsep.join(map(str, jars)),
        **(_ON_THIS_MACHINE if local else {"spark.jars": ",".join(map(str, jars))}),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.defaultJavaOptions": shlex.join(
            [f"-Dlog4j2.configurationFile={log4j.as_uri()}", *sharing_options("spark")]
        ),
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {'-XX:TieredStopAtLevel=1' if brief else _COMPILED_LATER}",
        "spark.local.dir": str(project.workspace / "spark"),
        "spark.sql.warehouse.dir": str(project.workspace / "spark" / "warehouse"),
        **(extra or {}),
        **settings.config,
        **_SEMANTICS,
    }
    for key, value in config.items():
        builder = builder.config(key, value)
    log = logs / f"spark-{name}.log"
    try:
        with _output_to(log), _undisturbed():
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SetupError(
            f"Spark did not start on {settings.master}: {str(error).strip().partition(chr(10))[0]} (its log is {log})"
        ) from error


def _no_trace_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a stack trace where a call to Java is interrupted, beside raising what interrupted it."""
    return not str(record.msg).endswith("while sending command.")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: in the middle of its start, it would leave Java running, with nobody to
    end it.

    Afterwards it means what it meant before. Spark would have it cancel all jobs, and asks Java for that in the middle
    of whatever it is asking for. (Blocking the signal would not do: another thread of this process takes it, and Python
    then raises it in this one.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if asked:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Processes started in the block write to ``log``: what the JVM has to say is for its log, not for the terminal of
    who asked for a number.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
