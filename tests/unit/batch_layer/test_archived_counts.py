"""What the audit counts in the archive, beside plain Python."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.audit.facts import count_archived, count_in_spans
from hourline_core.model import EventTime, Field, Source

HOURS = [datetime(2024, 5, 6, 20, tzinfo=UTC) + number * timedelta(hours=1) for number in range(3)]
SOURCE = Source(
    name="sales",
    topic="sales",
    fields={"shop": Field(type="string", required=True), "at": Field(type="string")},
    event_time=EventTime(expression="at"),
)


class Row(NamedTuple):
    hour: datetime
    after: timedelta | None
    """The time of the event after its hour."""
    duplicate: bool
    sequence: int
    shop: str | None


ROW = st.builds(
    Row,
    hour=st.sampled_from(HOURS),
    after=st.none()
    | st.sampled_from([timedelta(0), timedelta(minutes=59, seconds=59, microseconds=999_999)])
    | st.sampled_from([timedelta(microseconds=-1), timedelta(hours=1)]),
    duplicate=st.booleans(),
    sequence=st.integers(1, 3),
    shop=st.sampled_from(["a", None]),
)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(ROW, max_size=6))
def test_the_archive_is_counted_as_a_naive_pass_counts_it(rows: list[Row]) -> None:
    wanted = [HOURS[0], HOURS[2]]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA hourline")
        columns = "hour TIMESTAMPTZ, event_time TIMESTAMPTZ, duplicate BOOLEAN, sequence BIGINT, shop VARCHAR"
        connection.execute(f"CREATE TABLE hourline.events_sales ({columns})")
        for of in rows:
            time = None if of.after is None else of.hour + of.after
            connection.execute(
                "INSERT INTO hourline.events_sales VALUES (?, ?, ?, ?, ?)",
                [of.hour, time, of.duplicate, of.sequence, of.shop],
            )
        found = count_archived(connection, SOURCE, wanted, 2)
        in_spans = count_in_spans(connection, SOURCE, HOURS[:2], [(1, 1), (3, 3)])
    read = [of for of in rows if of.hour in wanted and of.sequence <= 2]
    strays = [of for of in read if of.after is None or not timedelta(0) <= of.after < timedelta(hours=1)]
    assert +Counter(found.events) == Counter(of.hour for of in read if not of.duplicate)
    assert +Counter(found.duplicates) == Counter(of.hour for of in read if of.duplicate)
    assert +Counter(found.strays) == Counter(of.hour for of in strays)
    assert +Counter(found.without["shop"]) == Counter(of.hour for of in read if of.shop is None)
    assert {*found.events} == {of.hour for of in read}
    lost = [of for of in rows if of.hour in HOURS[:2] and of.sequence != 2 and not of.duplicate]
    assert in_spans == Counter(of.hour for of in lost), "no result depends on the version of a repeated event"
