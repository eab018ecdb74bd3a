"""Values of DuckDB in JSON, at every depth. Moments are ISO text in UTC, numbers have all their digits, and NaN and
infinities are null.
"""

import pyarrow as pa

from hourline_core.sql.literals import literal

_MOST_DIGITS = 38


def value_sql(value: str, kind: pa.DataType, integers_as_text: bool = False, depth: int = 0) -> str:
    """SQL for what the expression ``value`` of the type ``kind`` is in JSON, at every depth."""
    sql = value
    if pa.types.is_union(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
        sql = f"{value}::VARCHAR"
    elif pa.types.is_nested(kind):
        sql = _nested_sql(value, kind, integers_as_text, depth)
    elif pa.types.is_timestamp(kind):
        sql = f"strftime({value}, '%Y-%m-%dT%H:%M:%S.%fZ')"
    elif pa.types.is_floating(kind):
        sql = f"CASE WHEN isfinite({value}) THEN {value} END"
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        sql = f"to_base64({value})"
    elif pa.types.is_decimal(kind) and kind.precision == kind.scale and not integers_as_text:
        # DuckDB writes `.5`, which is no JSON. There is no wider decimal than one of 38 digits, which becomes a text.
        wider = f"DECIMAL({kind.precision + 1},{kind.scale})" if kind.precision < _MOST_DIGITS else "VARCHAR"
        sql = f"CAST({value} AS {wider})"
    elif integers_as_text and (pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind)):
        sql = f"{value}::VARCHAR"
    return sql


def _nested_sql(value: str, kind: pa.DataType, integers_as_text: bool, depth: int) -> str:
    def within(part: str, of: pa.DataType) -> str:
        return value_sql(part, of, integers_as_text, depth + 1)

    one = f"_one{depth}"
    if pa.types.is_struct(kind):
        parts = [
            f"{literal(field.name)}: {within(f'struct_extract({value}, {literal(field.name)})', field.type)}"
            for field in kind
        ]
        return f"CASE WHEN {value} IS NOT NULL THEN {{{', '.join(parts)}}} END"
    if pa.types.is_map(kind):
        entry = f"{{'k': {within(f'{one}.key', kind.key_type)}, 'v': {within(f'{one}.value', kind.item_type)}}}"
        return f"map_from_entries(list_transform(map_entries({value}), lambda {one}: {entry}))"
    return f"list_transform({value}, lambda {one}: {within(one, kind.value_type)})"
