"""Looks whether the executors of a Spark on other machines have the Python and the packages that Hourline's tasks need.

Else the first micro-batch would end with a trace of the task that lacks them.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from hourline_core.error_causes import chain, first_cause, texts_of
from hourline_core.errors import SetupError

PACKAGES = ("hourline", "confluent-kafka", "datasketches", "deltalake", "duckdb", "msgspec", "pyarrow", "sqlglot")
"""What tasks import. Both layers fold in tasks and in the driver, so the versions are the same."""

_REMEDY = "install the driver's packages there, or name a Python that has them as spark.pyspark.python in spark.config"


def refuse_unsuited_python(spark: SparkContext, python: str, master: str) -> None:
    """Run a task for each core that has joined, which looks for Python and PACKAGES. Waits until there is an executor.

    Raises SetupError, with one sentence, when an executor cannot run ``python``, or lacks a package of the driver's.
    """
    tasks = spark.defaultParallelism
    try:
        found = spark.parallelize(range(tasks), tasks).map(_describer(PACKAGES)).collect()
    except (PySparkException, Py4JError) as error:
        cause = first_cause([*texts_of(chain(error))]).rstrip(".")
        raise SetupError(f"Spark's executors at {master} cannot run {python}: {cause}; {_REMEDY}") from error
    here = {name: version(name) for name in PACKAGES}
    lacks = describe_differences(found, here)
    if lacks:
        raise SetupError(f"{python} on Spark's executors at {master} is not like the driver's: {lacks}; {_REMEDY}")


def describe_differences(found: Iterable[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """What the first host of ``found`` lacks that is not like ``here``, in words. Empty: all are. Of each host, its
    name, and the versions of the packages that it has.
    """
    for there in found:
        differences = [
            f"has {name} {there[name]} instead of {wanted}" if name in there else f"lacks {name} {wanted}"
            for name, wanted in here.items()
            if there.get(name) != wanted
        ]
        if differences:
            return f"{there['host']} {', '.join(differences)}"
    return ""


def _describer(packages: tuple[str, ...]) -> Callable[[int], dict[str, str]]:
    """A function that gives the host and the versions of ``packages``. It travels by value, as it is a local one, so
    that it runs where Hourline is missing.
    """

    def describe(_: int) -> dict[str, str]:
        from importlib.metadata import PackageNotFoundError, version
        from platform import node

        found = {"host": node()}
        for name in packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    return describe
