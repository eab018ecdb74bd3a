"""SQL functions that call the classes of user-defined measures. Each text of a class has functions of its own name.

- ``fold_…(events)``: the state of a list of structs, each with an event's arguments, topic, partition and offset
- ``merge_…(states)``: the merged state of a list of states
- ``finish_…(state)``: the value of a state
- ``failure_…(state, n)``: why the class gives no value for the state of n events; null if it does not fail
- ``finish_…(events, n)``: for a keyed fold, the value of the first events of n
- ``failure_…(events, n)``: for a keyed fold, why the class gives no value for them; null if it does not fail
- ``beyond_…(events, n)``: for a keyed fold, the number of events that this value lacks

They get Arrow columns, so DuckDB calls Python once for some thousand rows. Null gives null. None of them raises: where
the class fails, the state or value is null.
"""

from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import BIGINT, VARCHAR, DuckDBPyType

from hourline_core.aggregates.user_classes.code import UnusableClassError, function_of
from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.measure_class import load_class
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
        try:
            _install(connection, measure)
        except UnusableClassError as error:
            raise SetupError(f"the measure '{measure.name}' cannot be used here: {error}") from None


def _install(connection: duckdb.DuckDBPyConnection, measure: UserMeasure) -> None:
    functions: list[tuple[str, Callable[..., pa.Array], list[Any] | None, DuckDBPyType]]
    if measure.kind == "fold":
        fold = load_fold(measure)
        # The arguments of a measure may be of any type.
        functions = [
            ("finish", fold.finish_all, None, _duckdb_type(connection, fold.value_type)),
            ("beyond", fold.count_beyond, None, BIGINT),
            ("failure", fold.find_failures, None, VARCHAR),
        ]
    else:
        loaded = load_class(measure)
        state, value = (_duckdb_type(connection, of) for of in (loaded.state_type, loaded.value_type))
        functions = [
            ("fold", loaded.fold, None, state),
            ("merge", loaded.merge_all, [duckdb.list_type(state)], state),
            ("finish", loaded.finish_all, [state], value),
            ("failure", loaded.find_failures, None, VARCHAR),
        ]
    for step, function, parameters, of in functions:
        # A value may be null.
        connection.create_function(
            function_of(step, measure), _of_arrays(function), parameters, of, type=ARROW, null_handling=SPECIAL
        )


def _of_arrays(function: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    return lambda *columns: function(*map(combine, columns))


def _duckdb_type(connection: duckdb.DuckDBPyConnection, of: pa.DataType) -> DuckDBPyType:
    connection.register("_type", pa.schema({"of": of}).empty_table())
    types = column_types(connection, "_type")
    connection.unregister("_type")
    return duckdb.type(types["of"])
