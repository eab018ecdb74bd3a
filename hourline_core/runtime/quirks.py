"""Workarounds for libraries. Each one says where its cause was read or reported.

They change what belongs to the whole process: its loggers, environment, modules, output and signals. Nothing else in
the shared rooms does.
"""

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from socketserver import BaseServer
from types import ModuleType
from typing import Any, NoReturn

from hourline_core.errors import OutputError


def exit_at_once(status: int) -> NoReturn:
    """End the process without Python's own exit, after what was printed is written.

    At Python's exit, a native thread that calls Python is ended by force. In a thread of C++ that aborts the process
    with status -6, after all the work is done. pyarrow has such threads while it reads Delta's files.

    - Python, before 3.14: https://github.com/python/cpython/issues/87135
    - pyarrow: https://github.com/apache/arrow/issues/34314
    - delta-rs: https://github.com/delta-io/delta-rs/issues/2184
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, OutputError):  # what could be printed was flushed before
            stream.flush()
    os._exit(status)


def look_up_classes_once(spark: Any) -> None:
    """Look up Java's classes that PySpark names for each function of an expression, and keep them.

    py4j asks Java each time, see ``JVMView.__getattr__`` in ``py4j/java_gateway.py``. Java looks for a short name such
    as ``PythonUtils`` in one package after the other, and for each of them in all jars.
    """
    jvm = spark.sparkContext._jvm
    for name in ("PythonUtils", "PythonSQLUtils", "functions", "org.apache.spark.sql.functions"):
        setattr(jvm, name, getattr(jvm, name))


def let_arrow_do_without_pandas() -> None:
    """Have Arrow not import pandas when it makes its first array, which takes some tenths of a second.

    It imports pandas to see whether values are of pandas: ``_PandasAPIShim._check_import`` in
    ``pyarrow/pandas-shim.pxi``. If that fails, it tries again only where pandas is needed, as in ``to_pandas``.
    """
    import pyarrow as pa

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Refusal())
        try:
            pa.array([0])
        finally:
            del sys.meta_path[0]


class _Refusal:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def import_great_expectations() -> None:
    """Import Great Expectations without what it only tries to import.

    Its module ``great_expectations/compatibility/pyspark.py`` imports Spark Connect. That ends a ``python -c`` with
    ``sys.exit(0)`` where its dependencies are missing: see ``check_dependencies`` in
    ``pyspark/sql/connect/utils.py``. It imports Spark's machine learning too, for histograms that Spark computes. The
    audit computes with pandas.

    Its modules ``compatibility/sqlalchemy.py``, ``expectations/core/expect_column_kl_divergence_to_be_less_than.py``
    and two of ``expectations/metrics/column_aggregate_metrics`` import SQLAlchemy, scipy.stats and altair. These are
    half of the time that the import takes. Without SQLAlchemy it goes on; the other two are imported on first use.
    """
    stand_ins: dict[str, ModuleType | None] = {
        "pyspark.ml": None,  # `import` of a module that is None here raises ModuleNotFoundError
        "pyspark.sql.connect": None,
        "sqlalchemy": None,
        "scipy.stats": _ImportedOnUse("scipy.stats"),
        "altair": _ImportedOnUse("altair"),
    }
    missing = [name for name in stand_ins if name not in sys.modules]
    sys.modules.update({name: stand_ins[name] for name in missing})  # type: ignore[misc]  # None is allowed there
    try:
        importlib.import_module("great_expectations")
    finally:
        for name in missing:
            del sys.modules[name]


def let_expectations_be_configured_once() -> None:
    """Have an expectation of Great Expectations build its configuration once when its parameters are collected.

    The functions below, of ``great_expectations/expectations/expectation.py``, ask for each parameter for the property
    ``configuration``, which builds all of it anew. They run for each metric of each expectation in each hour.
    """
    from great_expectations.expectations.expectation import Expectation

    build = Expectation.configuration.fget  # type: ignore[attr-defined]
    built: dict[int, Any] = {}

    def build_once(collect: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def collect_parameters(expectation: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
            if id(expectation) in built:
                return collect(expectation, *arguments, **named)
            built[id(expectation)] = build(expectation)
            try:
                return collect(expectation, *arguments, **named)
            finally:
                del built[id(expectation)]

        return collect_parameters

    for name in ("_get_runtime_kwargs", "_get_success_kwargs"):
        setattr(Expectation, name, build_once(getattr(Expectation, name)))
    Expectation.configuration = property(  # type: ignore[method-assign, assignment]
        lambda expectation: built.get(id(expectation)) or build(expectation)
    )


class _ImportedOnUse(ModuleType):
    """Stands for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # used by code that goes through all modules
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def use_spark_engine(engine: type) -> None:
    """Let the Spark sources of Great Expectations that are made from now on compute by ``engine``, a subclass of its
    ``SparkDFExecutionEngine``.

    A source makes its engine itself: ``get_execution_engine`` in
    ``great_expectations/datasource/fluent/interfaces.py``. Its type is a property of the class, and all that replaces
    it is ``execution_engine_override`` there. That is an attribute of the class, meant for tests.
    """
    from great_expectations.datasource.fluent.spark_datasource import SparkDatasource

    SparkDatasource.execution_engine_override = engine  # type: ignore[misc]


def silence_pyspark() -> None:
    """Keep stack traces of errors that are raised as well out of the log.

    - PySpark logs errors of queries: ``_log_exception`` in ``pyspark/errors/exceptions/base.py``.
    - Py4J logs calls to Java that are interrupted: ``send_command`` in ``py4j/java_gateway.py``, by the root logger.
    - Py4J logs errors of Python that Java has called: ``_call_proxy`` in ``py4j/clientserver.py``.
    - The server of accumulators prints that Java has ended: ``handle_error`` in ``socketserver.py``.
    """
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger().addFilter(_is_not_py4js)
    logging.getLogger("py4j.clientserver").disabled = True
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = lambda server, request, address: None  # type: ignore[assignment]


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith("while sending command.")


def let_spark_stop_at_once() -> None:
    """Have the server of accumulators notice every 20 ms that it is to stop.

    ``SparkContext.stop`` in ``pyspark/core/context.py`` waits for that server. ``_start_update_server`` in
    ``pyspark/accumulators.py`` starts it with the default of ``socketserver``, which looks every half second.
    """
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer

    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.serve_forever = partialmethod(BaseServer.serve_forever, poll_interval=0.02)  # type: ignore[assignment]


@contextmanager
def java_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block, ``variables`` are the environment of this process.

    ``launch_gateway`` in ``pyspark/java_gateway.py`` gives Java the environment of the process, and ``SparkContext`` in
    ``pyspark/core/context.py`` reads there what its Python workers run. Neither takes another. Variables that PySpark
    sets meanwhile stay: it reads them later.
    """
    before = dict(os.environ)
    try:
        for name in before.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
        yield
    finally:
        for name in variables.keys() - before.keys():
            os.environ.pop(name, None)
        os.environ.update(before)


def log_in_to_hadoop(conf: Any, name: str) -> None:
    """Start Spark's Java with the settings ``conf``, and tell its Hadoop that the user is called ``name``.

    Hadoop asks the system for the name, whatever ``HADOOP_USER_NAME`` says. If there is none, its
    ``UserGroupInformation`` raises "NullPointerException: invalid null input: name".
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized(conf=conf)
    users = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation  # type: ignore[union-attr]
    users.setLoginUser(users.createRemoteUser(name))


@contextmanager
def java_output_to(log: Path) -> Iterator[None]:
    """Processes that are started in the block write to ``log``.

    ``launch_gateway`` in ``pyspark/java_gateway.py`` starts Java with this process's standard output and error, and
    ``SparkContext`` has no way to say otherwise.
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


@contextmanager
def interrupts_deferred(*numbers: signal.Signals) -> Iterator[None]:
    """These signals, or Ctrl-C, wait for the end of the block, and then mean what they meant before.

    - In the middle of ``launch_gateway`` in ``pyspark/java_gateway.py`` it would leave Java running: the process is
      known to nobody until the gateway is connected.
    - ``SparkContext`` in ``pyspark/core/context.py`` sets a handler that cancels all jobs. It asks Java for that in the
      middle of whatever else is being asked. The handler from before the block is put back.
    - In the middle of ``Popen`` in ``subprocess.py`` it would leave the child running, too.

    Blocking the signal would not do: another thread of this process takes it, and Python then raises it in this one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: asked.append(number))
        for number in numbers or (signal.SIGINT,)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if asked:
            signal.raise_signal(asked[0])
