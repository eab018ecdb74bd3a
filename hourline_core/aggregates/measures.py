"""What a measure is in each engine: mergeable partial states in Spark SQL, their merge and the finished value in DuckDB
SQL.

A measure named ``delay`` stores its states in columns ``delay`` (one state) or ``delay__n``, ``delay__total``
(several). The four steps are those of a mergeable aggregate (prepare and update: ``partial``; merge; finish), as in
Agarwal et al., "Mergeable Summaries", 2012.

| kind     | states                                        | finished                                              |
|----------|-----------------------------------------------|-------------------------------------------------------|
| count    | rows, bigint                                  | bigint                                                |
| sum      | total                                         | as the state; null where no value was not null        |
| min, max | extreme, of the argument's type               | the same                                              |
| mean     | n, bigint; total as for sum                   | double; null where no value was not null              |
| distinct | theta sketch (Apache DataSketches), 2^12 nominal entries, binary | bigint, exact up to 4,096 values, then within about 3 % at 95 % |

Totals of integers up to 32 bits are bigint, of bigint decimal(29,0), of decimal(p,s) decimal(p+10,s): none overflows
within a tile, and the merge in DuckDB is 128 bits wide. Totals of floating-point numbers are double: their last digits
depend on the order of addition.
"""

import re
from collections.abc import Mapping

from hourline_core.model import Measure

_WHOLE = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "boolean": "bigint", "bigint": "decimal(19,0)"}
_ORDERED = {*_WHOLE, "float", "double", "string", "date", "timestamp", "timestamp_ntz"}
_SKETCHED = {"int": "x", "bigint": "x", "double": "x", "tinyint": "int", "smallint": "int", "float": "double"}


class UnsuitableArgumentError(ValueError):
    """The measure cannot be computed over an argument of that type; the message says which types it takes."""


def partials(name: str, measure: Measure, argument_type: str) -> dict[str, str]:
    """The stored columns of measure ``name``, each with the Spark SQL aggregate over events that fills it.

    ``argument_type`` is the argument's Spark type as ``simpleString`` writes it ("" for count). Raises
    UnsuitableArgumentError where the kind has no meaning for that type.
    """
    x = measure.argument
    match measure.kind:
        case "count":
            return {name: "count(*)"}
        case "sum":
            return {name: f"sum({_addend(measure, argument_type)})"}
        case "min" | "max":
            if argument_type not in _ORDERED and not argument_type.startswith("decimal"):
                raise UnsuitableArgumentError(f"{measure} needs a number, text, date or time; got {argument_type}")
            return {name: f"{measure.kind}({x})"}
        case "mean":
            return {f"{name}__n": f"count({x})", f"{name}__total": f"sum({_addend(measure, argument_type)})"}
        case "distinct":
            return {name: f"theta_sketch_agg({_sketched(x or '', argument_type)})"}


def quoted(name: str) -> str:
    """A name as a DuckDB identifier; `order` and `group` are fine names for a dimension."""
    return f'"{name}"'


def merges(name: str, measure: Measure, stored: Mapping[str, str]) -> dict[str, str]:
    """The stored columns of measure ``name``, each with the DuckDB SQL aggregate that merges it.

    ``stored`` gives the type of each stored column in DuckDB, which sums BIGINT to 128 bits, and a sum is to have the
    type of its parts.
    """
    match measure.kind:
        case "min" | "max":
            return {name: f"{measure.kind}({quoted(name)})"}
        case "distinct":
            return {name: f"distinct_merge({quoted(name)})"}
        case "mean":
            columns = [f"{name}__n", f"{name}__total"]
        case _:
            columns = [name]
    return {
        column: f"sum({quoted(column)})::BIGINT" if stored[column] == "BIGINT" else f"sum({quoted(column)})"
        for column in columns
    }


def needs_functions(measure: Measure) -> bool:
    """Whether its merge and finished value need the functions of sketches.py, which a DuckDB outside Python has not."""
    return measure.kind == "distinct"


def finished(name: str, measure: Measure) -> str:
    """DuckDB SQL for the finished value, over merged states."""
    match measure.kind:
        case "mean":
            return f"{quoted(f'{name}__total')}::DOUBLE / {quoted(f'{name}__n')}"
        case "distinct":
            return f"theta_estimate({quoted(name)})"
        case _:
            return quoted(name)


def _sketched(argument: str, argument_type: str) -> str:
    """The argument as a value that the sketch tells from every other one."""
    if argument_type in _SKETCHED:
        return argument if _SKETCHED[argument_type] == "x" else f"cast({argument} as {_SKETCHED[argument_type]})"
    nested = argument_type.startswith(("struct", "array", "map"))
    # As text, ["a, b"] and ["a", "b"] look alike; as JSON they do not. The dot: a sketch overlooks an empty text.
    return f"concat('.', {f'to_json({argument})' if nested else argument})"


def _addend(measure: Measure, argument_type: str) -> str:
    """The argument widened so that its sum cannot overflow."""
    if argument_type in _WHOLE:
        return f"cast({measure.argument} as {_WHOLE[argument_type]})"
    if argument_type in ("float", "double"):
        return f"cast({measure.argument} as double)"
    if decimal := re.fullmatch(r"decimal\((\d+),\d+\)", argument_type):
        if int(decimal[1]) > 28:
            raise UnsuitableArgumentError(
                f"{measure} over {argument_type} could overflow its sum of 38 digits; cast it to decimal(28, …) or less"
            )
        return f"{measure.argument}"
    raise UnsuitableArgumentError(f"{measure} needs a number; got {argument_type}")
