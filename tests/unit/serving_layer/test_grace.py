"""What `advise grace` counts, against counting one by one: both clocks, several partitions, imports, duplicates, and
compacted progress.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.model.hours import HOUR
from hourline_core.model.topics import topic_text
from hourline_core.model.windows import HOURLY
from serving_layer.reports.grace import GRACES, GraceReport, advise_grace
from speed_layer.commit.progress_compaction import compact_progress
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from tests.support.examples import examples

BASE = datetime(2024, 3, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SOURCE = Source(
    name="clicks",
    topic="clicks",
    fields={"n": Field(type="long")},
    event_time=EventTime(expression="at"),
    grace=timedelta(minutes=90),
)
WALL = SOURCE.model_copy(update={"clock": "wall"})
KAFKA, FILE = "topic-id", "file:0123"


@dataclass(frozen=True)
class Event:
    minute: int
    """After BASE."""
    partition: int = 0
    duplicate: bool = False

    @property
    def time(self) -> datetime:
        return BASE + self.minute * MINUTE

    @property
    def hour(self) -> datetime:
        return HOURLY.assign(self.time)


@dataclass(frozen=True)
class Batch:
    events: tuple[Event, ...]
    arrived: datetime
    topic_id: str = KAFKA
    has_record: bool = True
    clock: datetime | None = None
    """Before it. It is None before the first event."""


def clocked(batches: Sequence[Batch]) -> list[Batch]:
    """The batches with the highest event time before each as the clock."""
    done: list[Batch] = []
    for batch in batches:
        known = [event.time for before in done for event in before.events if not event.duplicate]
        done.append(replace(batch, clock=max(known, default=None)))
    return done


FOLDERS: list[TemporaryDirectory[str]] = []
"""Of the projects of all examples."""


@pytest.fixture(scope="module", autouse=True)
def no_folder_is_left() -> Iterator[None]:
    yield
    for folder in FOLDERS:
        folder.cleanup()


def written(
    source: Source, batches: Sequence[Batch], clock_at_end: datetime | None = None
) -> tuple[Project, SourceTables]:
    """A project with these micro-batches. The clock after the last one is by default the highest event time."""
    FOLDERS.append(TemporaryDirectory())
    project = Project(Path(FOLDERS[-1].name), Settings(), {source.name: source}, {})
    tables = open_source_tables(Layout.of(project), source, pa.schema({"n": pa.int64()}), [])
    schema = pa.schema([column for column in tables.events_schema if column.name != "sequence"])
    after = [batch.clock for batch in batches[1:]]
    counted = [event.time for batch in batches for event in batch.events if not event.duplicate]
    after.append(clock_at_end or max(counted, default=None))
    for sequence, (batch, clock) in enumerate(zip(batches, after, strict=True), tables.first_sequence):
        rows = [
            {
                "topic_id": batch.topic_id,
                "topic": source.topic,
                "partition": event.partition,
                "offset": number,
                "event_time": event.time,
                "hour": event.hour,
                "duplicate": event.duplicate,
                "record": {"arrived": batch.arrived} if batch.has_record else None,
            }
            for number, event in enumerate(batch.events)
        ]
        if rows:
            tables.append(tables.events, tables.events_schema, pa.Table.from_pylist(rows, schema), sequence)
        tables.finish(progress_row(source, sequence, batch, clock))
    return project, tables


def progress_row(source: Source, sequence: int, batch: Batch, clock: datetime | None) -> ProgressRow:
    counted = [event for event in batch.events if not event.duplicate]
    before = None if batch.topic_id == FILE else batch.arrived if source.clock == "wall" else batch.clock
    hours = []
    for hour in sorted({event.hour for event in counted}):
        events = sum(event.hour == hour for event in counted)
        late = before is not None and hour + HOUR + source.grace <= before
        hours.append(HourEvents(hour, events, events if late else 0))
    counts = RecordCounts(len(batch.events), len(counted), duplicates=len(batch.events) - len(counted))
    return ProgressRow(
        sequence,
        batch.topic_id,
        topic_text(source.topic),
        (),
        counts,
        tuple(hours),
        (),
        clock,
        batch.arrived,
        batch.arrived,
    )


def advised(project: Project, start: datetime | None = None, end: datetime | None = None) -> GraceReport:
    with serving_layer.Connection(project, clock=lambda: BASE + 20 * DAY) as connection:
        return advise_grace(connection, project.sources["clicks"], start, end)


def expected(source: Source, batches: Sequence[Batch], end: datetime) -> dict[str, object]:
    """The report by counting one by one."""
    seen = [
        (event, batch.arrived if source.clock == "wall" else batch.clock)
        for batch in batches
        for event in batch.events
        if batch.topic_id == KAFKA and not event.duplicate and event.hour < end
    ]
    graces = sorted({*GRACES, source.grace})
    late = [
        [(event, clock) for event, clock in seen if clock and clock - event.hour - HOUR >= grace] for grace in graces
    ]
    days = (end - min(event.hour for event, _ in seen)) / DAY
    revisions = [len({(event.hour, HOURLY.assign(clock)) for event, clock in part}) for part in late]

    def parts(key: str) -> list[tuple[str, int, list[float]]]:
        names = {event: f"clicks-{event.partition}" if key == "partition" else f"{event.hour:%H}" for event, _ in seen}
        found = []
        for name in sorted(set(names.values())):
            total = sum(names[event] == name for event, _ in seen)
            came = [total - sum(names[event] == name for event, _ in part) for part in late]
            found.append((name, total, [number / total for number in came]))
        return found

    return {
        "events": len(seen),
        "late": [len(part) for part in late],
        "revised": [len({event.hour for event, _ in part}) for part in late],
        "revisions": revisions,
        "advised": next(
            (grace.total_seconds() for grace, number in zip(graces, revisions, strict=True) if number / days <= 1), None
        ),
        "partitions": parts("partition"),
        "hours_of_day": parts("hour"),
    }


def shown(report: GraceReport) -> dict[str, object]:
    return {
        "events": report.events,
        "late": [cost.late for cost in report.graces],
        "revised": [cost.revised for cost in report.graces],
        "revisions": [cost.revisions for cost in report.graces],
        "advised": report.advised_seconds,
        "partitions": [(part.part, part.events, part.in_time) for part in report.partitions],
        "hours_of_day": [(part.part, part.events, part.in_time) for part in report.hours_of_day],
    }


EVENTS = st.builds(Event, st.integers(0, 3_000), st.integers(0, 2), st.sampled_from([False, False, False, True]))


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    """Micro-batches of a few minutes of arrival, at least one of them with an event from Kafka."""
    batches = [Batch((Event(0),), BASE)]
    for _ in range(draw(st.integers(1, 8))):
        events = draw(st.lists(EVENTS, max_size=4))
        arrived = batches[-1].arrived + draw(st.integers(0, 500)) * MINUTE
        batches.append(Batch(tuple(events), arrived, draw(st.sampled_from([KAFKA, KAFKA, KAFKA, FILE]))))
    return [*batches, Batch((Event(3_001),), batches[-1].arrived)]


@settings(max_examples=examples(6))
@given(streams(), st.data())
def test_the_report_is_what_counting_one_by_one_gives(batches: list[Batch], data: st.DataObject) -> None:
    held = data.draw(st.integers(0, 300)) * MINUTE  # a slow partition holds the clock back
    batches = [replace(batch, clock=batch.clock and batch.clock - held) for batch in clocked(batches)]
    for source in (SOURCE, WALL):
        project, _ = written(source, batches)
        end = BASE + 50 * HOUR
        assert shown(advised(project)) == expected(source, batches, end if source is SOURCE else BASE + 20 * DAY)


@settings(max_examples=examples(6))
@given(streams())
def test_compacted_progress_changes_no_delay(batches: list[Batch]) -> None:
    batches = clocked(batches)
    project, tables = written(SOURCE, batches)
    before = advised(project)
    compact_progress(tables.progress, BASE + 20 * DAY, [])
    assert advised(project) == before


def test_a_compacted_row_of_a_held_clock_gives_no_delay_beyond_its_clock() -> None:
    """The highest event time so far is 3 h, but the clock, which a slow partition holds, was 70 minutes at most."""
    held = BASE + 70 * MINUTE
    batches = [Batch((Event(minute),), BASE, clock=clock) for minute, clock in ((0, None), (180, BASE), (5, held))]
    project, tables = written(SOURCE, batches, held)
    assert compact_progress(tables.progress, BASE + 20 * DAY, []) > 0
    costs = {cost.grace_seconds: cost.late for cost in advised(project).graces}
    assert (costs[600], costs[1_800]) == (1, 0)


def test_an_event_at_the_very_grace_is_late() -> None:
    events = [Event(0), Event(150), Event(10), Event(151), Event(20), Event(300)]
    batches = clocked([Batch((event,), BASE) for event in events])
    report = advised(written(SOURCE, batches)[0])
    assert {cost.grace_seconds: cost.late for cost in report.graces} == {
        0: 2, 60: 2, 600: 2, 1800: 2, 3600: 2, 5400: 2, 7200: 0, 21600: 0, 86400: 0
    }  # fmt: skip


def test_the_declared_grace_has_as_many_late_events_as_were_counted_when_they_came() -> None:
    batches = clocked([Batch((Event(minute),), BASE) for minute in (0, 30, 200, 10, 149, 50, 300, 61, 700)])
    project, _ = written(SOURCE, batches)
    with serving_layer.connect(project) as connection:
        (late,) = connection.sql("SELECT count(*) FROM late_events").fetchone() or (0,)
    (declared,) = [cost for cost in advised(project).graces if cost.grace_seconds == 5_400]
    assert declared.late == late > 0


def test_a_range_is_counted_alone() -> None:
    batches = clocked([Batch((Event(minute),), BASE) for minute in (0, 130, 30, 70, 500, 80)])
    report = advised(written(SOURCE, batches)[0], BASE + HOUR, BASE + 2 * HOUR)
    assert (report.start, report.end, report.events) == (BASE + HOUR, BASE + 2 * HOUR, 2)
    assert [part.part for part in report.hours_of_day] == ["01"]


def test_events_without_a_time_of_arrival_are_left_out_of_wall_time() -> None:
    batches = [Batch((Event(0), Event(1)), BASE, has_record=False), Batch((Event(2),), BASE + 3 * HOUR)]
    report = advised(written(WALL, batches)[0])
    assert (report.events, report.unknown, report.graces[0].late) == (1, 2, 1)


@pytest.mark.parametrize(
    ("source", "batches", "said"),
    [
        (WALL, [Batch((Event(0),), BASE, has_record=False)], "have no time of arrival, which `clock: wall` needs"),
        (SOURCE, [Batch((), BASE)], "no event of 'clicks' has been accepted yet"),
        (SOURCE, [Batch((Event(5),), BASE)], "no events in the ended hours 2024-02-02T00:00Z to 2024-03-01T00:00Z;"),
        (SOURCE, [Batch((Event(0), Event(5), Event(99)), BASE, FILE)], "but 2 imported ones, which have no delay"),
    ],
)
def test_without_known_delays_it_is_said_why(source: Source, batches: list[Batch], said: str) -> None:
    project, _ = written(source, clocked(batches))
    with pytest.raises(UsageError, match=said):
        advised(project)


def test_a_range_that_has_not_ended_names_the_clock() -> None:
    project, _ = written(SOURCE, clocked([Batch((Event(65),), BASE)]))
    with pytest.raises(UsageError, match="no hour from 2024-03-01T01:00Z on has ended: the clock of 'clicks' is at"):
        advised(project, BASE + HOUR)


def test_a_source_that_was_never_read_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path, Settings(), {"clicks": SOURCE}, {})
    with pytest.raises(UsageError, match="nothing of 'clicks' is archived yet"):
        advised(project)
