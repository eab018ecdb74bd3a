"""Each rejected event is shown with the bytes of its record, whichever row of the table has them."""

from collections.abc import Sequence

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.model.decoding import TOMBSTONE
from hourline_core.sql.rejected import rejected_rows_sql
from tests.support.examples import examples

ROW = 'sequence BIGINT, topic_id VARCHAR, "partition" INTEGER, "offset" BIGINT, reason VARCHAR, "value" BLOB'

RECORD = st.tuples(st.integers(1, 2), st.sampled_from(["a", "b"]), st.integers(0, 1), st.integers(0, 2))
PLACES = st.lists(st.integers(0, 3), min_size=1, unique=True)


@settings(max_examples=examples(40), deadline=None)
@given(st.dictionaries(RECORD, st.tuples(PLACES, st.booleans())))
def test_a_rejected_event_has_the_bytes_of_its_record(
    records: dict[tuple[int, str, int, int], tuple[list[int], bool]],
) -> None:
    """As an older version of Hourline kept them, they are on each row of the record."""
    rows, expected = [], []
    for record, (places, older) in records.items():
        value = repr(record).encode()
        for number, place in enumerate(places):
            rows.append((*record, "no", value if older or number == 0 else None, place, "now"))
            expected.append((*record, "no", value, place, "now"))
    tombstones = [(*record, None, None, 0, TOMBSTONE) for record in records]
    stored = [*rows, *tombstones]
    assert sorted(shown(f"{ROW}, _hourline_place INTEGER, decoding VARCHAR", stored)) == sorted(expected)


def test_a_table_without_places_and_decodings_is_shown_as_it_is() -> None:
    row = (1, None, 0, 7, "no", b"bytes")
    assert shown(ROW, [row]) == [(*row, None, None)]


def shown(columns: str, rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE stored ({columns})")
        if rows:
            connection.executemany(f"INSERT INTO stored VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return connection.execute(rejected_rows_sql("stored")).fetchall()
