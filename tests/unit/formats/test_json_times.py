"""Local times become UTC as Java and Spark do it, whatever the zone and the year, and the grammar knows the calendar."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.time_grammar import ISO_DATE, ISO_LOCAL, ISO_WITH_OFFSET, matches
from hourline_core.model.fields import Field

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Europe/Dublin",
]


def in_utc(zone: str, *texts: str) -> list[datetime | None]:
    decoder = JsonDecoder({"at": Field(type="timestamp", encoding="local", zone=zone)})
    records = pa.array([f'{{"at":"{text}"}}'.encode() for text in texts], pa.binary())
    times: list[datetime | None] = decoder.decode(records).columns["at"].to_pylist()
    return times


def by_python(zone: str, text: str) -> datetime:
    local = datetime.fromisoformat(text)
    return (local - (local.replace(tzinfo=ZoneInfo(zone)).utcoffset() or timedelta(0))).replace(tzinfo=UTC)


@given(
    st.sampled_from(ZONES),
    st.lists(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)), max_size=5),  # noqa: DTZ001
    st.lists(st.datetimes(datetime(1880, 1, 1), datetime(2040, 12, 31)), max_size=20),  # noqa: DTZ001
)
@settings(max_examples=150, deadline=None)
def test_a_local_time_has_the_offset_of_its_zone(zone: str, all_years: list[datetime], usual: list[datetime]) -> None:
    texts = [time.isoformat() for time in (*all_years, *usual)]
    assert in_utc(zone, *texts) == [by_python(zone, text) for text in texts]


@pytest.mark.parametrize("zone", ZONES)
def test_each_minute_of_days_when_the_clocks_change_is_read(zone: str) -> None:
    # The clocks change on one of these days in each zone that changes them: forward on one, back on another.
    days = [
        date(2013, 3, 10),
        date(2013, 3, 31),
        date(2013, 4, 7),
        date(2013, 10, 6),
        date(2013, 10, 20),
        date(2013, 10, 27),
        date(2013, 11, 3),
        date(2013, 2, 16),
    ]
    texts = [f"{day}T{minute // 60:02}:{minute % 60:02}:00" for day in days for minute in range(0, 1440, 10)]
    assert in_utc(zone, *texts) == [by_python(zone, text) for text in texts]


def test_the_grammar_has_each_day_of_the_calendar_and_no_other() -> None:
    texts = [
        f"{year:04}-{month:02}-{day:02}"
        for year in (*range(0, 9999, 37), 1900, 2000, 2004, 2100, 2400)
        for month in range(14)
        for day in range(33)
    ]
    for text in texts:
        try:
            is_day = bool(date.fromisoformat(text))
        except ValueError:
            is_day = False
        assert matches(ISO_DATE, text) == is_day, text
    by_arrow = pc.match_substring_regex(pa.array(texts), ISO_DATE).to_pylist()
    assert by_arrow == [matches(ISO_DATE, text) for text in texts]


@pytest.mark.parametrize("pattern", [ISO_LOCAL, ISO_WITH_OFFSET])
def test_the_grammar_has_the_bounds_of_the_text_in_it(pattern: str) -> None:
    text = "2013-01-05T14:30:00" + ("Z" if pattern == ISO_WITH_OFFSET else "")
    assert matches(pattern, text)
    assert not any(matches(pattern, one) for one in (f"{text}\n", f" {text}", f"{text}x", f"x\n{text}"))
