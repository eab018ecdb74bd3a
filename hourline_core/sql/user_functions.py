"""SQL functions that call the classes of user-defined measures. Each text of a class has functions of its own name.

- ``fold_…(events)``: the state of a list of structs, each with an event's arguments, topic, partition and offset
- ``merge_…(states)``: the merged state of a list of states
- ``finish_…(state)``: the value of a state

They get Arrow columns, so DuckDB calls Python once for some thousand rows. Null gives null.
"""

from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import DuckDBPyType

from hourline_core.aggregates.user_class import UnusableClassError, UserClass, function_of, load_class
from hourline_core.errors import SetupError
from hourline_core.model import Metric, UserMeasure, user_measures_of
from hourline_core.sql.histograms import combine
from hourline_core.sql.sketches import install_sketch_functions
from hourline_core.sql.types import column_types


def install_functions(connection: duckdb.DuckDBPyConnection, metrics: Iterable[Metric]) -> None:
    """Make the functions that ``metrics`` need available on ``connection``: those above, and those of sketches.py.

    Raises SetupError if a class cannot be used here, such as for a package that is not installed.
    """
    install_sketch_functions(connection)
    for measure in {own for metric in metrics for own in user_measures_of(metric).values()}:
        _install(connection, _load(measure))


def _install(connection: duckdb.DuckDBPyConnection, loaded: UserClass) -> None:
    state, value = _duckdb_types(connection, loaded)
    functions: list[tuple[str, Callable[[pa.Array], pa.Array], list[Any] | None, DuckDBPyType]] = [
        ("fold", loaded.fold, None, state),  # The arguments of a measure may be of any type.
        ("merge", loaded.merge_all, [duckdb.list_type(state)], state),
        ("finish", loaded.finish_all, [state], value),
    ]
    for step, function, parameters, of in functions:
        # A value may be null.
        connection.create_function(
            function_of(step, loaded.measure), _of_array(function), parameters, of, type=ARROW, null_handling=SPECIAL
        )


def _load(measure: UserMeasure) -> UserClass:
    try:
        return load_class(measure)
    except UnusableClassError as error:
        raise SetupError(f"the measure '{measure.name}' cannot be used here: {error}") from None


def _of_array(function: Callable[[pa.Array], pa.Array]) -> Callable[[pa.ChunkedArray], pa.Array]:
    return lambda rows: function(combine(rows))


def _duckdb_types(connection: duckdb.DuckDBPyConnection, loaded: UserClass) -> tuple[DuckDBPyType, DuckDBPyType]:
    """DuckDB's types of a state and of a value."""
    connection.register("_types", pa.schema({"s": loaded.state_type, "v": loaded.value_type}).empty_table())
    types = column_types(connection, "_types")
    connection.unregister("_types")
    return duckdb.type(types["s"]), duckdb.type(types["v"])
