"""What followers are told: each hour that a publication has published, whoever published, whatever was killed."""

from collections import Counter
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.publication import Publication
from hourline_core.feed import published
from hourline_core.feed.changed_findings import findings_changed_after
from hourline_core.feed.confirmed_gaps import confirmed_after
from hourline_core.feed.followers import Follower, report_followers
from hourline_core.feed.positions import ASSETS, read_position, write_position
from hourline_core.feed.published import newest_publication, published_after
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import record_findings
from hourline_core.model.hours import iso_text
from tests.support.bare_tables import BASE, SOURCE, BareTables, hour
from tests.support.examples import examples

METRIC = "totals"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sets(st.integers(0, 3), min_size=1)),
        st.tuples(st.just("killed before coverage"), st.sets(st.integers(0, 3), min_size=1)),
        st.tuples(st.just("told"), st.none()),
        st.tuples(st.just("killed before it is noted"), st.none()),
    ),
    max_size=10,
)


KINDS = ("silent", "rejected_share")
RECORDS = st.lists(st.tuples(st.sets(st.sampled_from(KINDS)), st.booleans(), st.booleans()), max_size=8)


class CrashError(Exception):
    pass


def started(folder: Path) -> BareTables:
    tables = BareTables(folder, hours=[0, 1, 2, 3])
    tables.start()
    tables.micro_batch(4)
    return tables


@settings(max_examples=examples(10))
@given(steps=STEPS)
def test_each_published_hour_is_told_by_its_last_publication(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    tables = started(tmp_path_factory.mktemp("feed"))
    waiting: dict[int, int] = {}  # by hour, the number of its last publication that was not told of
    number = 0
    for step, hours in [*steps, ("told", None)]:
        if step == "publish":
            tables.publish(*sorted(hours), metrics=[METRIC])
            number = newest_publication(tables.project)
            waiting |= dict.fromkeys(hours, number)
        elif step == "killed before coverage":
            with patch.object(Publication, "_commit_coverage", side_effect=CrashError), pytest.raises(CrashError):
                tables.publish(*sorted(hours), metrics=[METRIC])
        else:
            found = published_after(tables.project, read_position(tables.project, ASSETS))
            assert [(one.metric, one.hour, one.publication) for one in found.hours] == [
                (METRIC, hour(which), last) for which, last in sorted(waiting.items())
            ]
            assert found.up_to == newest_publication(tables.project) >= number
            if step == "told":
                write_position(tables.project, ASSETS, found.up_to)
                waiting.clear()


def test_a_blocked_hour_is_not_told(tmp_path: Path) -> None:
    tables = started(tmp_path)
    tables.publish(0, 1, metrics=[METRIC], blocked=[1])
    assert [one.hour for one in published_after(tables.project, 0).hours] == [hour(0)]


def test_many_publications_are_told_in_their_order_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = started(tmp_path)
    for which in ((0, 1), (2,), (1, 3)):
        tables.publish(*which, metrics=[METRIC])
    monkeypatch.setattr(published, "_HOURS", 2)
    parts, position = [], 0
    while (part := published_after(tables.project, position)).hours:
        parts.append([one.hour for one in part.hours])
        position = part.up_to
    # The last publication is not divided.
    assert parts == [[hour(0), hour(1)], [hour(1), hour(2), hour(3)]]


def test_who_followed_tables_that_were_deleted_is_told_of_all_hours(tmp_path: Path) -> None:
    tables = started(tmp_path)
    tables.publish(0, 2, metrics=[METRIC])
    far = newest_publication(tables.project) + 7
    assert Counter(one.hour for one in published_after(tables.project, far).hours) == {hour(0): 1, hour(2): 1}


def test_the_lag_of_a_follower_is_what_waits_for_it(tmp_path: Path) -> None:
    def assets() -> Follower:
        return next(one for one in report_followers(tables.project) if one.name == ASSETS)

    tables = started(tmp_path)
    assert (assets().publication, assets().newest, assets().waiting, assets().since) == (0, 0, 0, None)
    tables.publish(0, 1, metrics=[METRIC])
    assert (assets().publication, assets().waiting, assets().since) == (0, 2, BASE)
    write_position(tables.project, ASSETS, assets().newest)
    assert (assets().publication, assets().waiting, assets().since) == (assets().newest, 0, None)


@settings(max_examples=examples(10))
@given(records=RECORDS, minutes=st.permutations(range(8)))
def test_each_finding_that_was_opened_or_closed_is_told_in_order_also_when_the_clock_goes_back(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[set[str], bool, bool]],
    minutes: list[int],
) -> None:
    project = started(tmp_path_factory.mktemp("feed")).project
    expected: list[str] = []  # what was not read, or not noted
    opened: dict[str, str] = {}
    position: int | None = None
    for (kinds, is_read, is_noted), minute in zip(records, minutes, strict=False):
        now = BASE + timedelta(minutes=minute)
        record_findings(project, [Finding(kind, "clicks", "warn", BASE, BASE, "", "") for kind in sorted(kinds)], now)
        gone, new = sorted(opened.keys() - kinds), sorted(kinds - opened.keys())
        changes = [(kind, "closed") for kind in gone] + [(kind, "opened") for kind in new]
        opened |= {kind: f"clicks/{kind}/{iso_text(now)}" for kind in new}
        told_now = [f"{opened[kind]}/{change}" for kind, change in changes]
        opened = {kind: name for kind, name in opened.items() if kind in kinds}
        expected += sorted(told_now)  # Those of one record have no order among themselves.
        if is_read:
            found = findings_changed_after(project, position)
            told = [list(of) for _, of in groupby(found.changes, key=attrgetter("version"))]
            assert [name for part in told for name in sorted(one.id for one in part)] == expected
            if is_noted:
                position, expected = found.up_to, []
    assert [one.id for one in findings_changed_after(project, 999).changes] == [
        one.id for one in findings_changed_after(project, None).changes
    ], "a position in a table that was deleted"


def test_a_gap_that_was_confirmed_is_told_once(tmp_path: Path) -> None:
    tables = started(tmp_path)
    first, second = tables.lose(0, 1), tables.lose(None, 2)
    assert confirmed_after(tables.project, 0).sequences == {}
    confirm_gap(tables.project, SOURCE, first, "ada", "it was a test", BASE)
    before = confirmed_after(tables.project, 0)
    assert before.sequences == {"clicks": {first}}
    confirm_gap(tables.project, SOURCE, second, "ada", "it was a test", BASE)
    assert confirmed_after(tables.project, before.up_to).sequences == {"clicks": {second}}
    assert confirmed_after(tables.project, before.up_to + 9).sequences == {"clicks": {first, second}}
    assert confirmed_after(tables.project, confirmed_after(tables.project, 0).up_to).sequences == {}
