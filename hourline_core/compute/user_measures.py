"""The classes of user-defined measures in Spark: functions over Arrow columns, called in its Python workers.

Spark gives a function some thousand rows at once, in which the events of a group are scattered. All of them that are in
one batch become one partial state, at the row of the first. Then Spark lists the partial states of a group, and merges
them. So a group with a million events is a hundred states, and its events are never in one list.
"""

from collections.abc import Callable
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from hourline_core.aggregates.user_classes.code import function_of
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.aggregates.user_defined import UserDefined
from hourline_core.compute.worker_database import open_database
from hourline_core.model import Measure, UserMeasure


def register_functions(spark: SparkSession, measure: UserMeasure) -> None:
    """Make these functions available. None of them raises.

    - ``fold_…(group, arguments…, topic, partition, offset)``: see ``fold_batch``
    - ``merge_…(folded)``: the merged state of a list of these

    Raises UnusableClassError.
    """
    state = load_class(measure).state_type
    functions = (
        ("fold", _fold(measure), _folded_type(state)),
        ("merge", _merge(measure), state),
    )
    for step, function, of in functions:
        # The kind of function is told by its type hints, or Spark warns.
        registered = arrow_udf(function, from_arrow_type(of))  # type: ignore[call-overload]
        spark.udf.register(function_of(step, measure), registered)


def _fold(measure: UserMeasure) -> Callable[..., pa.Array]:
    def fold(group: pa.Array, *values: pa.Array) -> pa.Array:
        return fold_batch(measure, group, values)

    return fold


def _merge(measure: UserMeasure) -> Callable[[pa.Array], pa.Array]:
    def merge(folded: pa.Array) -> pa.Array:
        loaded = load_class(measure)
        states = pc.list_flatten(folded).field("state")
        lengths = pa.array([0, *pc.list_value_length(folded).to_pylist()], pa.int32())
        return loaded.merge_all(pa.ListArray.from_arrays(pc.cumulative_sum(lengths), states))

    return merge


def _folded_type(state: pa.DataType) -> pa.DataType:
    """What is folded of a group in a batch: its state, and the number of its events. The state is null where the class
    failed.
    """
    return pa.struct({"state": state, "n": pa.int64()})


def fold_batch(measure: UserMeasure, group: pa.Array, values: tuple[pa.Array, ...]) -> pa.Array:
    """At the first row of each ``group``, what is folded of its events in the batch. All other rows are null, and so
    are groups in which no event counts.

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
    listed, loaded = found["events"].combine_chunks(), load_class(measure)
    counts = pc.list_value_length(listed).cast(pa.int64())
    folded = pa.StructArray.from_arrays(
        [loaded.fold(listed), counts], fields=list(_folded_type(loaded.state_type)), mask=pc.is_null(counts)
    )
    places: list[int | None] = [None] * len(group)
    for place, row in enumerate(found["row"].to_pylist()):
        places[row] = place
    return folded.take(pa.array(places, pa.int64()))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB that groups the rows of a batch: it compares dimensions of all types as Spark does."""
    return open_database()
