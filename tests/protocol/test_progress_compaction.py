"""Old progress has a row for each hour, instead of one for each micro-batch; whoever asks hears the same, and counts
nothing twice afterwards.
"""

import random
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow, TakenBack
from hourline_core.ledger.read_offsets import Reading
from hourline_core.model import BatchSettings, Settings
from hourline_core.model.hours import HOUR
from hourline_core.storage.opening import open_table
from serving_layer.reports.kafka_offsets import SourceOffsets
from serving_layer.reports.late import list_late_hours
from serving_layer.reports.lineage import explain_number
from serving_layer.reports.status import report_status
from speed_layer.commit.maintenance import maintain_source
from speed_layer.reset import MetricReset
from tests.support import bare_tables
from tests.support.bare_tables import BASE, METRICS, BareTables, hour

MINUTES = 7
"""Between two micro-batches."""
VIEWS = [
    *METRICS,
    *(f"{metric}_states" for metric in METRICS),
    "hours",
    "long_silences",
    "late_events",
    "publications",
    "events_clicks",
    "rejected_clicks",
]


class TimedTables(BareTables):
    """Micro-batches some minutes apart, of which those that ``late`` says bring late events, and those of ``taking``
    take some back.
    """

    late: frozenset[int] = frozenset()
    taking: frozenset[int] = frozenset()

    def _progress(self, batch: list[int]) -> ProgressRow:
        row = super()._progress(batch)
        moment = BASE + timedelta(minutes=MINUTES * self.sequence)
        hours = tuple(replace(of, late=of.events if self.sequence in self.late else 0) for of in row.hours)
        back = tuple(TakenBack(of.hour, 1) for of in hours if self.sequence in self.taking)
        return replace(row, started=moment, finished=moment + timedelta(seconds=1), hours=hours, taken_back=back)


def answers(tables: BareTables) -> dict[str, list[Any]]:
    with serving_layer.connect(tables.project) as connection:
        return {view: connection.sql(f"FROM {view} ORDER BY ALL").fetchall() for view in VIEWS}


def told(tables: BareTables) -> dict[str, Any]:
    """All that is said about the tables, but for when events arrived and hours closed, which is told by the hour
    afterwards.
    """
    with serving_layer.connect(tables.project) as connection:
        found: dict[str, Any] = {
            "late": list_late_hours(connection, None),
            "status": report_status(
                connection, 100, {name: SourceOffsets({}) for name in tables.project.sources}
            ).model_dump(),
        }
        for wrong in found["status"]["wrong"]:
            if wrong["finding"] == "not_recomputed":
                del wrong["sentence"], wrong["since"]
        for number in sorted(set(tables.hours[: tables.offset])):
            of = explain_number(connection, "totals", hour(number)).model_dump()
            assert of["events"]["first_arrived"] <= of["events"]["last_arrived"]
            found[f"explain {number}"] = {
                **of,
                "events": {key: value for key, value in of["events"].items() if not key.endswith("_arrived")},
            }
            for table in ("progress", "provisional"):
                del found[f"explain {number}"]["versions"][table]
    return found


def progress(tables: BareTables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        open_table(tables.layout.progress(tables.project.sources["clicks"]), {}).to_pyarrow_table().to_pylist()
    )
    return sorted(rows, key=lambda row: row["sequence"])


def reading(tables: BareTables) -> Reading:
    return Progress(open_table(tables.layout.progress(tables.project.sources["clicks"]), {})).reading("topic-id")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_whoever_asks_hears_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311 (the same choices each time)
    tables = TimedTables(tmp_path, sorted(rng.choices(range(6), k=200)))
    tables.late = frozenset(rng.sample(range(1, 41), 6))
    tables.start()
    summed_up = 0
    for number in range(1, 41):
        tables.micro_batch(rng.randrange(1, 4))
        if number in (10, 25):
            tables.publish(*range(number // 9), blocked=[0] if number == 25 else [])
        if number == 30:
            MetricReset(tables.project, METRICS["odd"]).apply(BASE + timedelta(minutes=MINUTES * number))
            tables.start()
        if number % 20 == 0:
            moment = BASE + timedelta(minutes=MINUTES * tables.sequence)
            answered, before, rows, offsets = answers(tables), told(tables), progress(tables), reading(tables)
            clock = cycle([moment]).__next__
            maintain_source(tables.project, tables.source_tables, kept_hours=rng.randrange(3), clock=clock)
            assert told(tables) == before
            assert answers(tables) == answered
            assert reading(tables) == offsets
            assert progress(tables)[-1] == rows[-1]
            summed_up += len(rows) - len(progress(tables))
            tables.start()
            assert answers(tables) == answered
    assert summed_up > 10


def test_an_hour_has_one_row_and_a_late_event_keeps_its_own(tmp_path: Path) -> None:
    tables = TimedTables(tmp_path, [0] * 40)
    tables.late = frozenset({3})
    tables.start()
    for _ in range(20):
        tables.micro_batch(2)
    maintain_source(
        tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 2 * HOUR + timedelta(minutes=30)
    )
    per_hour = 60 // MINUTES
    assert [row["sequence"] for row in progress(tables)] == [
        2,
        3,
        per_hour,
        2 * per_hour + 1,
        *range(2 * per_hour + 2, 21),
    ]
    assert sum(row["accepted"] for row in progress(tables)) == 40
    # As often as it is done, nothing is summed up twice.
    maintain_source(
        tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 2 * HOUR + timedelta(minutes=30)
    )
    maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 9 * HOUR)
    assert [row["sequence"] for row in progress(tables)] == [2, 3, per_hour, 2 * per_hour + 1, 20]
    assert sum(row["accepted"] for row in progress(tables)) == 40


def test_what_was_taken_back_is_added_up(tmp_path: Path) -> None:
    tables = TimedTables(tmp_path, [0] * 8)
    tables.taking = frozenset({2, 3})
    tables.start()
    for _ in range(4):
        tables.micro_batch(2)
    maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 9 * HOUR)
    (row,) = progress(tables)
    assert (row["sequence"], row["accepted"]) == (4, 8)
    assert row["taken_back"] == [{"hour": hour(0), "events": 2}]


def test_what_a_recompute_has_counted_and_what_came_after_it_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = TimedTables(tmp_path, [0] * 8 + [1] * 12)
    tables.start()
    for _ in range(4):
        tables.micro_batch(2)
    tables.publish(0)
    for _ in range(2):
        tables.micro_batch(2)  # in the same hour of the day, but none for hour 0
    monkeypatch.setattr(bare_tables, "TILINGS", bare_tables.TILINGS[1:])  # totals is taken away
    tables.start()
    tables.micro_batch(2)
    monkeypatch.undo()  # and declared again
    tables.start()
    answered = answers(tables)
    assert {row[2]: row[3] for row in answered["hours"] if row[:2] == ("metric", "totals")} == {
        hour(0): "final",
        hour(1): "missing",
    }
    maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 9 * HOUR)
    # A start with other metrics has a row of its own.
    assert [row["sequence"] for row in progress(tables)] == [4, 6, 7, 8, 9]
    assert answers(tables) == answered


def test_as_long_as_answers_can_be_repeated_nothing_is_summed_up(tmp_path: Path) -> None:
    tables = TimedTables(tmp_path, [0] * 40)
    tables.project = replace(tables.project, settings=Settings(batch=BatchSettings(answers_kept=timedelta(hours=5))))
    tables.start()
    for _ in range(20):
        tables.micro_batch(2)
    maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 5 * HOUR)
    assert len(progress(tables)) == 20
    maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: BASE + 6 * HOUR)
    assert len(progress(tables)) < 15
