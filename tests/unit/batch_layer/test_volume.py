"""How much comes in an hour: bounds and shares by hand, past days, and silence against a naive count."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.audit.findings import Finding
from batch_layer.audit.validator import Validator
from batch_layer.audit.volume import Arrivals, compare_volume, count_silence
from hourline_core.model import EventTime, Field, Source, Volume
from hourline_core.model.hours import hour_text

HOUR = timedelta(hours=1)
BASE = datetime(2024, 5, 6, tzinfo=UTC)
COUNTS = st.lists(st.sampled_from([0, 0, 1, 5]), min_size=1, max_size=230)
SUSTAINED = st.builds(
    lambda before, silent, after: [1] * before + [0] * silent + after,
    st.integers(0, 200),
    st.integers(0, 8),
    st.lists(st.sampled_from([0, 1]), max_size=12),
)


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def numbered(counts: list[int]) -> dict[datetime, int]:
    return {BASE + number * HOUR: count for number, count in enumerate(counts)}


def naive_silence(counts: list[int], number: int) -> int:
    """By text: three zeros that end here, and none in the 168 letters before their run began."""
    text = "".join("0" if count == 0 else "1" for count in counts[: number + 1])
    run = len(text) - len(text.rstrip("0"))
    before = text[: len(text) - run][-168:]
    return run if run >= 3 and len(before) >= 24 and "000" not in before else 0


@given(counts=COUNTS | SUSTAINED)
def test_a_silence_is_what_a_feed_that_never_sleeps_has_never_had(counts: list[int]) -> None:
    events = numbered(counts)
    found = [count_silence(events, hour) for hour in events]
    assert found == [naive_silence(counts, number) for number in range(len(counts))]


def test_the_third_hour_of_a_silence_is_the_first_that_tells() -> None:
    events = numbered([1] * 24 + [0] * 5 + [1] * 3 + [0] * 4)
    assert [count_silence(events, hour) for hour in events][24:] == [0, 0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0]
    assert count_silence(numbered([1] * 23 + [0] * 5), BASE + 27 * HOUR) == 0, "too little is known"


def test_hours_that_nobody_knows_are_no_silence() -> None:
    events = {BASE + number * HOUR: 1 for number in range(24)} | {BASE + (900 + n) * HOUR: 0 for n in range(3)}
    assert count_silence(events, BASE + 902 * HOUR) == 0


def findings(
    validator: Validator,
    volume: Volume,
    events: Mapping[datetime, int],
    hours: list[datetime],
    late: Mapping[datetime, int] | None = None,
    rejected: Mapping[datetime, float] | None = None,
    duplicates: Mapping[datetime, int] | None = None,
) -> dict[tuple[str, datetime], Finding]:
    """By what they are about and the hour."""
    source = Source(
        name="s", topic="s", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"), volume=volume
    )
    facts = compare_volume(source, Arrivals(events, late or {}, rejected or {}, events), duplicates or {}, hours)
    validation = validator.evaluate_results(facts.frame, facts.checks, [hour_text(hour) for hour in hours], ["hour"])
    by_text = {hour_text(hour): hour for hour in hours}
    found = {(", ".join(finding.check.columns), by_text[finding.hour]): finding for finding in validation.findings}
    assert len(found) == len(validation.findings)
    return found


def test_bounds_are_inclusive_and_each_hour_is_told_with_its_number(validator: Validator) -> None:
    hours = [BASE + number * HOUR for number in range(4)]
    events = dict(zip(hours, [0, 3, 5, 6], strict=True))
    found = findings(validator, Volume(min=3, max=5), events, hours)
    told = {hour: found["events", hour] for hour in hours}
    assert [told[hour].success for hour in hours] == [False, True, True, False]
    assert [told[hour].blocks for hour in hours] == [True, False, False, True]
    assert told[hours[0]].found == "0, where 3 to 5 is declared"
    assert (told[hours[3]].observed, told[hours[3]].lower, told[hours[3]].upper) == (6, 3, 5)
    only = findings(validator, Volume(min=3, severity="warn"), events, hours)["events", hours[0]]
    assert (only.success, only.blocks, only.found) == (False, False, "0, where at least 3 is declared")


def test_shares_are_of_the_hour_and_nothing_has_a_share_of_zero(validator: Validator) -> None:
    some, none = BASE, BASE + HOUR
    volume = Volume(late=0.25, duplicates=0.2, rejected=0.5)
    found = findings(
        validator, volume, {some: 8, none: 0}, [some, none], late={some: 3}, rejected={some: 0.5}, duplicates={some: 2}
    )
    late, repeated, refused = (
        found[f"share of {what}", some] for what in ("late events", "duplicates", "rejected records")
    )
    assert (late.observed, late.success, late.found) == (0.375, False, "0.375, where at most 0.25 is declared")
    assert (repeated.observed, repeated.success) == (0.2, True), "2 of 10"
    assert (refused.observed, refused.success) == (0.5, True)
    assert all(finding.success for (_, hour), finding in found.items() if hour == none)


def test_without_a_declaration_an_hour_unlike_past_days_warns_and_an_empty_one_counts_as_zero(
    validator: Validator,
) -> None:
    days: list[int] = [100] * 21 + [0]
    events = {BASE + number * 24 * HOUR: count for number, count in enumerate(days)}
    last = BASE + 21 * 24 * HOUR
    found = findings(validator, Volume(), events, [last])["events beyond past days", last]
    assert (found.success, found.blocks, found.check.origin) == (False, False, "history")
    assert found.found == "0, where past days say 68.0625 to 138.062"
    # Two of the days had no events, and are known all the same.
    few = {hour: 0 if number in (2, 5) else count for number, (hour, count) in enumerate(events.items())}
    assert not findings(validator, Volume(), few, [last])["events beyond past days", last].success
    assert ("events beyond past days", BASE) not in findings(validator, Volume(), events, [BASE]), "still learning"


def test_where_most_past_days_had_no_events_a_few_are_no_fault(validator: Validator) -> None:
    events = {BASE + number * 24 * HOUR: 0 for number in range(25)} | {BASE + 25 * 24 * HOUR: 3}
    last = max(events)
    assert ("events beyond past days", last) not in findings(validator, Volume(), events, [last])


@pytest.mark.parametrize(("severity", "blocks"), [("warn", False), ("fail", True)])
def test_a_silence_is_told_with_its_length(validator: Validator, severity: Any, blocks: bool) -> None:
    events = numbered([1] * 24 + [0] * 4)
    hours = list(events)[-4:]
    found = findings(validator, Volume(silence=severity), events, hours)
    told = [found["hours of silence", hour] for hour in hours]
    assert [(finding.success, finding.found) for finding in told] == [
        (True, ""),
        (True, ""),
        (False, "hours of silence: 3"),
        (False, "hours of silence: 4"),
    ]
    assert {finding.blocks for finding in told[2:]} == {blocks}
    assert {finding.check.origin for finding in told} == {"history"}


def test_what_is_off_is_not_looked_for(validator: Validator) -> None:
    assert findings(validator, Volume.model_validate({"history": "off", "silence": "off"}), {BASE: 1}, [BASE]) == {}
