"""What the server tells about itself: GetSqlInfo."""

from collections.abc import Collection
from importlib.metadata import version
from typing import Any

import pyarrow as pa

_KINDS = {
    "string_value": pa.string(),
    "bool_value": pa.bool_(),
    "bigint_value": pa.int64(),
    "int32_bitmask": pa.int32(),
    "string_list": pa.list_(pa.string()),
    "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
}
_VALUE = pa.dense_union([pa.field(name, kind) for name, kind in _KINDS.items()])

SERVER_INFO_SCHEMA = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE)])

_TEXTS = {
    0: "Hourline",
    1: version("hourline"),
    2: pa.__version__,
    504: '"',  # quotes a name
    513: "\\",  # escapes % and _ in a pattern
    514: "",  # no other letters of plain names
    529: "",  # there are no schemas, procedures and catalogs
    530: "",
    531: "",
}
_YES = {
    3,  # it only reads
    4,  # SQL
    506,  # all tables can be selected
    *(515, 516),  # columns can be renamed; null and a text is null
    518,  # tables can be renamed
    *(520, 521),  # ORDER BY takes expressions, and columns that are not selected
    523,  # ESCAPE
    539,  # correlated subqueries
}
_NO = {
    *(5, 9, 10),  # Substrait, a query that is cancelled by another call, bulk ingestion
    *(500, 501, 502),  # CREATE and DROP of catalogs, schemas, tables
    *(519, 524, 527, 532, 536, 537, 556),
    *(563, 565, 566, 573),  # transactions and savepoints
    *(572, 574, 575, 576),  # batches, named parameters, locators, calls of functions
}
_NUMBERS = {
    8: 0,  # no transactions
    **dict.fromkeys((100, 101), 0),  # a prepared statement has no end
    **dict.fromkeys((503, 505), 1),  # names are found in any case
    507: 3,  # nulls are sorted last
    522: 3,  # GROUP BY takes columns that are not selected
    **dict.fromkeys((525, 526), 1),
    528: 2,  # outer joins
    **dict.fromkeys((533, 534, 535, 562, 568, 570, 571), 0),
    538: 15,  # subqueries anywhere
    540: 3,  # UNION and UNION ALL
    564: 1,
    **dict.fromkeys((567, 569), 2),  # rows come in one direction, and cannot be changed
}
_NO_LIMITS = {*range(541, 556), *range(557, 562)}
_LISTS = {*range(508, 513)}  # keywords and functions
_CONVERSIONS = 517

_BY_KIND: list[dict[int, Any]] = [
    _TEXTS,
    dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False),
    dict.fromkeys(_NO_LIMITS, 0),
    _NUMBERS,
    {number: [] for number in _LISTS},
    {_CONVERSIONS: {}},
]
_INFO = {number: (kind, value) for kind, facts in enumerate(_BY_KIND) for number, value in facts.items()}
"""By the numbers of Flight SQL, the place of the kind in the union, and the value. A driver of JDBC fails where one of
those lacks that a BI tool asks for.
"""


def server_info(wanted: Collection[int]) -> pa.Table:
    """The facts with these numbers, or all of them if there are none."""
    numbers = set(wanted) or _INFO.keys()
    told = {number: fact for number, fact in sorted(_INFO.items()) if number in numbers}
    children: list[list[object]] = [[] for _ in _KINDS]
    kinds, offsets = [], []
    for kind, value in told.values():
        kinds.append(kind)
        offsets.append(len(children[kind]))
        children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, kind) for child, kind in zip(children, _KINDS.values(), strict=True)],
        list(_KINDS),
    )
    return pa.table([pa.array(list(told), pa.uint32()), values], schema=SERVER_INFO_SCHEMA)
