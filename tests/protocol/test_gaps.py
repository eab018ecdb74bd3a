"""The hours of a gap are incomplete until a person confirms them, whatever is read, recomputed or compacted meanwhile. No
number and no plan depends on it.
"""

from datetime import timedelta
from pathlib import Path

import pytest

import serving_layer
from batch_layer.plan import plan
from hourline.cli.status import Order, say_status
from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.feed.confirmed_gaps import confirmed_after
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.model.hours import HOUR
from serving_layer.change_feed import final_windows_of
from serving_layer.reports.gaps import list_gaps
from serving_layer.reports.kafka_offsets import SourceOffsets
from serving_layer.reports.status import report_status
from speed_layer.commit.progress_compaction import compact_progress
from tests.support.bare_tables import BASE, METRICS, SHOP, SOURCE, BareTables, hour
from tests.support.project_files import write_project

EVENTS = [0, 1, 2, 3, 4, 5, 3]
CLEAN = {0: "final", 1: "final", 2: "final", 3: "revised", 4: "provisional", 5: "provisional"}


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """Hours 0 to 3 are published, and hour 3 is revised since."""
    tables = BareTables(tmp_path, EVENTS)
    tables.start()
    tables.micro_batch(6)
    tables.publish(0, 1, 2, 3)
    tables.micro_batch(1)
    return tables


def states(tables: BareTables, as_of: str | None = None) -> dict[int, str]:
    """The states of the hours; all metrics and the source have the same."""
    with serving_layer.connect(tables.project, as_of=as_of) as connection:
        rows = connection.sql("SELECT DISTINCT hour, state FROM hours WHERE state IS NOT NULL ORDER BY hour").fetchall()
    found = {(moment - BASE) // HOUR: state for moment, state in rows}
    assert len(found) == len(rows)
    return found


def answers(tables: BareTables) -> list[list[tuple[object, ...]]]:
    with serving_layer.connect(tables.project) as connection:
        return [connection.sql(f"SELECT hour, n FROM {metric} ORDER BY hour").fetchall() for metric in METRICS]


def test_hours_are_incomplete_from_the_gap_until_its_confirmation(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        before = connection.token
    planned, counted = plan(tables.project), answers(tables)
    assert states(tables) == CLEAN
    first = tables.lose(2, 4)
    assert states(tables) == CLEAN | dict.fromkeys((2, 3, 4), "incomplete")
    assert states(tables, before) == CLEAN, "that answer knew of no gap"
    assert plan(tables.project) == planned
    assert answers(tables) == counted
    with serving_layer.connect(tables.project, strict=True) as connection:
        with pytest.raises(UnreliableResultError, match="incomplete"):
            connection.sql("FROM totals")
        assert connection.sql(f"FROM totals WHERE hour = '{hour(5)}'").fetchall()

    second = tables.lose(None, 2)
    tables.publish(3, 4)
    done = {3: "final", 4: "final"}
    assert states(tables) == CLEAN | done | dict.fromkeys(range(5), "incomplete"), "where it begins is not known"
    confirm_gap(tables.project, SOURCE, second, "ada", "it was a test", BASE)
    assert states(tables) == CLEAN | done | dict.fromkeys((2, 3, 4), "incomplete")
    compact_progress(tables.source_tables.progress, BASE + timedelta(days=9999), [])
    with pytest.raises(UsageError, match=rf"clicks\.{second} was confirmed on .* by ada"):
        # Who has listed the gaps before it was confirmed.
        confirm_gap(tables.project, SOURCE, second, "bob", "it was another test", BASE)
    with serving_layer.connect(tables.project) as connection:
        shown = list_gaps(connection, "clicks")
        (status,) = report_status(connection, 1, {"clicks": SourceOffsets({})}).sources
    assert [(gap.gap, gap.records, gap.person) for gap in shown] == [
        (f"clicks.{first}", 10, None),
        (f"clicks.{second}", 10, "ada"),
    ]
    assert status.gaps == shown
    assert status.skipped == 20
    confirm_gap(tables.project, SOURCE, first, "ada", "all of them were bots", BASE)
    assert states(tables) == CLEAN | done


def test_a_long_silence_is_incomplete_while_its_records_may_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = BareTables(write_project(tmp_path, SHOP), [0, 800, 803])
    tables.start()
    tables.micro_batch(3)
    tables.publish(*range(745), metrics=["totals"])

    def look() -> list[tuple[object, ...]]:
        day = f"SELECT state FROM windows WHERE window_start = '{hour(724)}'"
        with serving_layer.connect(tables.project.root) as connection:
            silence = connection.sql("SELECT silence_start, silence_end, state FROM long_silences").fetchall()
            return silence + connection.sql(day).fetchall()

    assert look() == [(hour(745), hour(800), "final"), ("final",)], "the day ends in the silence"
    gap = tables.lose(746, 746)
    assert look() == [(hour(745), hour(800), "incomplete"), ("incomplete",)]
    with serving_layer.connect(tables.project) as connection:
        status = report_status(connection, 1, {"clicks": SourceOffsets({})})
    say_status(tables.project, status, None, Order.NEED)
    assert "clicks: silent 2024-04-01 01:00 – 2024-04-03 08:00, 55 hours, incomplete" in capsys.readouterr().out
    compact_progress(tables.source_tables.progress, BASE + timedelta(days=9999), [])
    before = serving_layer.connect(tables.project.root)
    confirm_gap(tables.project, SOURCE, gap, "ada", "it was a test", BASE)
    assert look() == [(hour(745), hour(800), "final"), ("final",)]
    with before, serving_layer.connect(tables.project.root) as after:
        told = final_windows_of(before, after, [], confirmed_after(tables.project, 0))
    assert [(one.metric, one.start) for one in told] == [("by_day", hour(724))]


def test_an_hour_that_is_blocked_is_shown_as_blocked(tables: BareTables) -> None:
    tables.publish(2, 3, blocked=[3])
    tables.lose(2, 3)
    assert states(tables) == CLEAN | {2: "incomplete", 3: "blocked"}
