"""An old answer can be had again, exactly, after whatever has been processed, published, pruned, compacted and vacuumed since; or it is refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bare_tables import METRICS, SOURCE, BareTables

from batch_layer.maintain import Maintenance
from hourline.database import attach, connect
from hourline.declarations import BatchSettings, Settings
from hourline.errors import UsageError
from hourline.hours import wall_clock
from hourline.past import position_at, snapshot_at
from hourline.snapshot import Snapshot, take_snapshot
from hourline.tables import open_table
from serving_layer.views import create_views
from speed_layer.upkeep import keep_up, keep_up_stopped

HOURS = [0, 1, 2, 0, 1, 3, 2, 0, 4, 3, 1, 5, 0, 4, 6, 2, 5, 7, 1, 6]
VIEWS = [*METRICS, *(f"{metric}_states" for metric in METRICS), "hours", "drift", "quality", "late_events", "events_clicks", "rejected_clicks"]
Answers = dict[str, list[tuple[Any, ...]]]


def answers(tables: BareTables, snapshot: Snapshot) -> Answers:
    with connect() as database:
        attach(database, tables.project, snapshot, datetime(2026, 1, 1, tzinfo=UTC))
        create_views(database, tables.project, snapshot)
        return {view: database.execute(f"FROM {view} ORDER BY ALL").fetchall() for view in VIEWS}


def position(snapshot: Snapshot) -> tuple[int, dict[str, int]]:
    return snapshot.publication, {name: known.sequence for name, known in snapshot.progress.items()}


@pytest.fixture
def told(tmp_path: Path) -> tuple[BareTables, list[tuple[Snapshot, Answers, datetime]]]:
    """Tables with a history of micro-batches, publications and upkeep, and what was answered in between."""
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    found = []

    def ask() -> None:
        snapshot = take_snapshot(tables.project)
        found.append((snapshot, answers(tables, snapshot), wall_clock()))

    for number in range(10):
        tables.micro_batch(2)
        ask()
        if number % 2:
            tables.publish(*range(number), blocked=[1] if number == 5 else ())
            ask()
        if number == 4:
            keep_up(tables.project, tables.ledger)
            tables.start()
            ask()
    return tables, found


def test_every_answer_is_repeated_as_it_was(told: tuple[BareTables, list[tuple[Snapshot, Answers, datetime]]]) -> None:
    tables, found = told
    keep_up_stopped(tables.project, SOURCE)
    list(Maintenance(tables.project).run())
    for snapshot, answered, moment in found:
        assert answers(tables, snapshot_at(tables.project, *position(snapshot))) == answered
        assert position_at(tables.project, moment) == position(snapshot)


def test_where_provisional_is_no_longer_kept_final_hours_are_as_they_were_and_the_others_are_missing(
    told: tuple[BareTables, list[tuple[Snapshot, Answers, datetime]]],
) -> None:
    tables, found = told
    tables.publish(*range(8))  # all is final
    keep_up_stopped(tables.project, SOURCE, kept_hours=0)
    list(Maintenance(tables.project, kept_hours=0).run())
    seen = set()
    for snapshot, answered, _ in found:
        then = snapshot_at(tables.project, *position(snapshot))
        repeated = answers(tables, then)
        for metric in METRICS:
            states = {row[2]: row[3] for row in answered["hours"] if row[:2] == ("metric", metric)}
            now = {row[2]: row[3] for row in repeated["hours"] if row[:2] == ("metric", metric)}
            assert {state for hour, state in now.items() if state != states[hour]} <= {"missing"}
            # Whether what lay above the cut passed the metric's `where` is not known any more.
            assert metric == "odd" or all(now[hour] == "final" for hour, state in states.items() if state == "final")
            assert repeated[metric] == [row for row in answered[metric] if now[row[0]] != "missing"]
            seen |= set(now.values())
    assert seen >= {"final", "missing"}


def test_what_final_needs_is_kept_as_long_as_the_settings_say(told: tuple[BareTables, list[tuple[Snapshot, Answers, datetime]]]) -> None:
    tables, found = told
    tables.project = replace(tables.project, settings=Settings(batch=BatchSettings(answers_kept=timedelta(0))))
    list(Maintenance(tables.project, kept_hours=0).run())
    newest = take_snapshot(tables.project)
    assert answers(tables, snapshot_at(tables.project, *position(newest))) == answers(tables, newest)
    refused = 0
    for snapshot, answered, _ in found:
        try:
            assert answers(tables, snapshot_at(tables.project, *position(snapshot)))["totals"] == answered["totals"]
        except UsageError as error:
            assert "is no longer kept; answers can be repeated for 0:00:00 (batch.answers_kept in hourline.yaml)" in str(error)
            refused += 1
    assert refused > 0


def test_what_never_was_is_refused(told: tuple[BareTables, list[tuple[Snapshot, Answers, datetime]]]) -> None:
    tables, _ = told
    newest = open_table(tables.layout.coverage, {}).version()
    for publication, sequences, said in (
        (newest + 1, {"clicks": 3}, f"there is no publication {newest + 1} yet; the newest is {newest}"),
        (newest, {"clicks": 999}, "source 'clicks' has no micro-batch 999; the newest is"),
        (newest, {"click": 3}, "there is no source 'click' — did you mean 'clicks'?"),
    ):
        with pytest.raises(UsageError) as error:
            snapshot_at(tables.project, publication, sequences)
        assert said in str(error.value)
    with pytest.raises(UsageError, match="nothing had been processed by 2020-01-01T00:00:00Z"):
        position_at(tables.project, datetime(2020, 1, 1, tzinfo=UTC))
