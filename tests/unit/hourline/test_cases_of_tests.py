"""The ways in which the records of a test are read."""

from datetime import UTC, datetime, timedelta

import pytest

from hourline.metric_tests.cases import SPLITS, Recompute, cases_of

HOURS = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=number) for number in range(10)]


@pytest.mark.parametrize("records", [1, 2, 7, 200])
def test_all_records_are_read_once_in_each_case(records: int) -> None:
    cases = list(cases_of(records))
    assert len(cases) == records + 1 + SPLITS
    for case in cases:
        assert case.ends == tuple(sorted(set(case.ends)))
        assert (case.ends[0] > 0, case.ends[-1]) == (True, records)
        assert {one.after for one in case.recomputes} <= set(case.ends)


def test_there_is_a_cut_before_and_after_each_record() -> None:
    told = [case.in_words for case in cases_of(2)][:3]
    assert told == [
        "cut 0: one micro-batch, no recompute",
        "cut 1: micro-batches of 1 and 1 records, a recompute after 1",
        "cut 2: one micro-batch, a recompute after 2",
    ]


def test_the_splits_are_the_same_each_time() -> None:
    first, second = list(cases_of(9)), list(cases_of(9))
    assert first == second
    assert len({case.ends for case in first[10:]}) > SPLITS / 2
    several = next(case for case in first[10:] if len(case.recomputes) > 1)
    assert "a recompute of some hours after" in several.in_words


def test_a_split_recomputes_some_of_the_hours() -> None:
    chosen = Recompute(3, "seed").chosen(HOURS)
    assert chosen == Recompute(3, "seed").chosen(set(HOURS))
    assert set(chosen) < set(HOURS)
    assert chosen
    assert Recompute(3).chosen(HOURS[::-1]) == HOURS
