"""Reasons that differ in the values that they quote are one."""

import duckdb

from hourline_core.model import Source
from hourline_core.sql.arrivals import reasons_sql

SOURCE = Source.model_validate({"name": "s", "topic": "t", "fields": {"at": "string"}, "event_time": "at"})
ALIKE = [
    ["field 'n': got \"a\", want int", "field 'n': got \"b\nc\", want int"],
    ['got "hello bob", want a text that its pattern matches', 'got "x", want a text that its pattern matches'],
    ["field 'm['k1']': got 5, want string", "field 'm['k, 2']': got 6, want string"],
    [
        "schema id 0b5a4c3e-1f7d-4e0a-9c1b-2d3e4f5a6b7c is not in the registry",
        "schema id ffffffff-1f7d-4e0a-9c1b-2d3e4f5a6b7c is not in the registry",
    ],
    ["invalid Avro in 'x': got the length -1 at byte 7", "invalid Avro in 'x': got the length -2 at byte 12"],
]


def test_reasons_are_one_if_they_differ_in_values_alone() -> None:
    with duckdb.connect() as connection:
        connection.sql("CREATE SCHEMA hourline")
        connection.sql(
            "CREATE TABLE hourline.rejected_s"
            '(reason VARCHAR, sequence BIGINT, topic VARCHAR, partition INT, "offset" BIGINT)'
        )
        reasons = [reason for alike in ALIKE for reason in alike]
        rows = [(reason, 1, "t", 0, place) for place, reason in enumerate(reasons)]
        connection.executemany("INSERT INTO hourline.rejected_s VALUES (?, ?, ?, ?, ?)", rows)
        found = connection.sql(reasons_sql(SOURCE, 1, 1, 100)).fetchall()
    assert {row[0]: row[1] for row in found} == {alike[0]: 2 for alike in ALIKE}
