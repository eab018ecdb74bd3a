"""Builds all Spark sessions of Hourline."""

import os
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hourline_core.child_environment import WORKER_MEMORY, known_user_name, user_name
from hourline_core.error_causes import chain, java_causes, texts_of
from hourline_core.errors import SetupError, first_line
from hourline_core.model import Project
from hourline_core.runtime.attempts import register_attempt
from hourline_core.runtime.class_archives import sharing_options
from hourline_core.runtime.executor_python import refuse_unsuited_python
from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java
from hourline_core.runtime.quirks import (
    interrupts_deferred,
    java_environment,
    java_output_to,
    let_spark_stop_at_once,
    log_in_to_hadoop,
    look_up_classes_once,
    silence_pyspark,
)
from hourline_core.runtime.spark_java import spark_environment, with_same_everywhere

# Both layers must evaluate the declared expressions under these rules, or their results would differ.
_SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    # A bad cast or a division by zero gives null, as a part of its expression. In ANSI mode, it would raise an error,
    # and the whole expression would be null.
    "spark.sql.ansi.enabled": "false",
    # Spark would evaluate a part that two expressions share before both of them, where nothing catches its error.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # Of two headers with one name, the last one counts, as in Kafka's own `lastHeader`.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # The ranges of what is cached leave NaN out, and so would a condition on it.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
}

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark describes each query for its page, which is off. The default description took 18 % of the time of the thread
    # that plans, in a profile of short queries.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # By default, Delta rebuilds the state of a table's log in 50 tasks. On one machine, that takes seconds even for a
    # log of a few hundred lines.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Otherwise each call that builds a plan asks Java several times for where it was made in Python. Nobody sees that.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Data is cached for seconds only. Compressing it takes longer than all other work on it.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}

# The thresholds of Java's second compiler are ten times the defaults. Code that runs for each record still reaches them
# within a micro-batch. Code that runs a few times per micro-batch, such as Spark's planning, does not: compiling it
# costs more CPU time than it saves.
_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
)

# With its first compiler alone, Java reserves a fifth of the usual memory for compiled code. Spark fills that within a
# minute, and from then on Java compiles nothing.
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

_ON_THIS_MACHINE = {
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # No other machine needs to reach the driver, whatever this machine's name resolves to.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Executors on other machines may have another Python, which a start looks at.
    "spark.python.daemon.module": "hourline_core.runtime.python_daemon",
}

_ATTEMPTS = 4
"""How often a task is tried: Spark's default of `spark.task.maxFailures`, which does not apply to a local Spark."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def is_local(master: str) -> bool:
    """Whether Spark runs in this process, and its Python workers on this machine."""
    return master.partition("[")[0] == "local"


def spark_session(
    project: Project, name: str, extra: dict[str, str] | None = None, *, brief: bool = False, runs_tasks: bool = True
) -> SparkSession:
    """The Spark session of this process, with the project's settings. ``spark.config`` overrides the defaults, but not
    the semantics.

    A ``brief`` session runs without Java's second compiler, which costs more than it saves in a minute of work.
    One that ``runs_tasks`` waits for an executor, and looks whether it has what they need.

    Raises SetupError when Java or the jars are missing, Spark does not start or takes the workspace for several
    folders, or its executors lack what they need.
    """
    settings = project.settings.spark
    python = settings.config.get("spark.pyspark.python", sys.executable)
    if "," in str(project.workspace):
        raise SetupError(
            f"Spark takes {project.workspace} for several folders, because of ','; choose another workspace "
            "(--workspace, or `workspace` in hourline.yaml)"
        )
    find_java()  # Spark looks in the same places, but its error for a missing Java is unclear
    silence_pyspark()
    let_spark_stop_at_once()
    jars = fetch_jars("spark")
    local = is_local(settings.master)
    logs = project.workspace / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log4j = logs / "log4j2-spark.properties"
    log4j.write_text(_LOG4J)
    config = {
        "spark.app.name": f"hourline-{name}",
        "spark.master": allow_retries(settings.master),
        **_DEFAULTS,
        # The jars are on the class path from the start, since only its classes are shared (see class_archives.py). They
        # come after the entries of the settings.
        "spark.driver.defaultExtraClassPath": os.pathsep.join(map(str, jars)),
        **(_ON_THIS_MACHINE if local else {"spark.jars": ",".join(map(str, jars))}),
        "spark.driver.memory": settings.driver_memory,
        **({f"spark.executorEnv.{WORKER_MEMORY}": settings.worker_memory} if settings.worker_memory else {}),
        "spark.driver.defaultJavaOptions": shlex.join(
            [f"-Dlog4j2.configurationFile={log4j.as_uri()}", *sharing_options("spark")]
        ),
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {_FIRST_COMPILER_ONLY if brief else _COMPILED_LATER}",
        "spark.local.dir": str(project.workspace / "spark"),
        "spark.sql.warehouse.dir": str(project.workspace / "spark" / "warehouse"),
        **(extra or {}),
        **settings.config,
        **_SEMANTICS,
    }
    conf = SparkConf().setAll([*with_same_everywhere(config).items()])
    log = logs / f"spark-{name}.log"
    before = log.stat().st_size if log.exists() else 0
    try:
        with java_output_to(log), java_environment(spark_environment(python)), interrupts_deferred():
            if known_user_name() is None:
                log_in_to_hadoop(conf, user_name())
            session = SparkSession.builder.config(conf=conf).getOrCreate()
            look_up_classes_once(session)
            register_attempt(session)
    except (PySparkException, Py4JError, OSError) as error:
        said = _why_not_started(error, _written(log, before))
        raise SetupError(f"Spark did not start on {settings.master}: {said} (its log is {log})") from error
    if runs_tasks and not local:
        try:
            refuse_unsuited_python(session.sparkContext, python, settings.master)
        except BaseException:
            stop_spark(session)
            raise
    return session


def allow_retries(master: str) -> str:
    """A local ``master`` that runs a failed task again, up to the number of attempts of a cluster, unless it says how
    often itself. By default, a local Spark ends a query at its first failed task.
    """
    threads = re.fullmatch(r"local(?:\[\s*([0-9]+|\*)\s*\])?", master)
    return f"local[{threads[1] or 1},{_ATTEMPTS}]" if threads else master


def _written(log: Path, before: int) -> str:
    """What Java has written since the log had ``before`` bytes, of a start."""
    with log.open("rb") as file:
        file.seek(before)
        return file.read(100_000).decode(errors="replace")


def _why_not_started(error: Exception, written: str) -> str:
    """All errors that Java has named, from the one it raised to its first cause; else its first lines that tell one."""
    causes = [cause for text in (written, *texts_of(chain(error))) for cause in java_causes(text)]
    if causes:
        return "; caused by ".join(dict.fromkeys(causes))
    lines = [line.strip() for line in written.splitlines() if "rror" in line or line.startswith("Could not")]
    return "; ".join([first_line(error).rstrip("."), *lines[:2]])


def stop_spark(spark: SparkSession) -> None:
    """Stop the session. Its Java process may have ended already."""
    with suppress(Py4JError, OSError):
        spark.stop()
