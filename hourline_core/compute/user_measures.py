"""The classes of user-defined measures in Spark: functions over Arrow columns, called in its Python workers.

Spark gives a function some thousand rows at once, in which the events of a group are scattered. All of them that are in
one batch become one partial state, at the row of the first. Then Spark lists the partial states of a group, and merges
them. So a group with a million events is a hundred states, and its events are never in one list.
"""

from collections.abc import Callable
from functools import cache

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from hourline_core.aggregates.user_classes.code import function_of
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.aggregates.user_defined import UserDefined
from hourline_core.model import Measure, UserMeasure


def register_functions(spark: SparkSession, measure: UserMeasure) -> None:
    """Make the functions ``fold_…(group, arguments…, topic, partition, offset)`` and ``merge_…(states)`` available.

    Raises UnusableClassError.
    """
    state = from_arrow_type(load_class(measure).state_type)
    for step, function in (("fold", _fold(measure)), ("merge", _merge(measure))):
        # The kind of function is told by its type hints, or Spark warns.
        spark.udf.register(function_of(step, measure), arrow_udf(function, state))  # type: ignore[call-overload]


def _fold(measure: UserMeasure) -> Callable[..., pa.Array]:
    def fold(group: pa.Array, *values: pa.Array) -> pa.Array:
        return fold_batch(measure, group, values)

    return fold


def _merge(measure: UserMeasure) -> Callable[[pa.Array], pa.Array]:
    def merge(states: pa.Array) -> pa.Array:
        return load_class(measure).merge_all(states)

    return merge


def fold_batch(measure: UserMeasure, group: pa.Array, values: tuple[pa.Array, ...]) -> pa.Array:
    """At the first row of each ``group``, the state of its events in the batch. All other rows are null.

    ``values`` are the columns that ``UserDefined.values`` gives. A row whose group is null is left out.
    """
    names = [f"v{place}" for place in range(len(values))]
    batch = pa.table([group, pa.array(range(len(group)), pa.int64()), *values], ["g", "row", *names])
    events = UserDefined(Measure(kind="user_defined", argument="x", user_measure=measure)).list_events(names)
    connection = _connection()
    connection.register("batch", batch)
    found = connection.execute(
        f"SELECT min(row) AS row, {events} AS events FROM batch WHERE g IS NOT NULL GROUP BY g"
    ).to_arrow_table()
    connection.unregister("batch")
    states = load_class(measure).fold(found["events"].combine_chunks())
    places: list[int | None] = [None] * len(group)
    for place, row in enumerate(found["row"].to_pylist()):
        places[row] = place
    return states.take(pa.array(places, pa.int64()))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB that groups the rows of a batch: it compares dimensions of all types as Spark does."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection
