"""What followers are told: each hour that a publication has published, whoever published, whatever was killed."""

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.publication import Publication
from hourline_core.feed import published
from hourline_core.feed.followers import Follower, report_followers
from hourline_core.feed.positions import ASSETS, read_position, write_position
from hourline_core.feed.published import newest_publication, published_after
from tests.support.bare_tables import BASE, BareTables, hour
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
