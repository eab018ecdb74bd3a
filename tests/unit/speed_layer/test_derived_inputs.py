"""The tables of a join's inputs must be those that were joined, and reach as far."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import SourceError
from hourline_core.ledger.layout import EVENT_SCHEMA, Layout
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import ProgressRow, RecordCounts, TakenBack
from hourline_core.model import load_project
from hourline_core.storage.creation import open_or_create
from speed_layer.derived.inputs import Input, new_rows, open_inputs, refuse_other_inputs, split_rows
from tests.support.project_files import write_project

PAID: Any = SimpleNamespace(name="paid")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def table_of(name: str, id: str, sequence: int, anew: int = 0) -> Input:
    """An input whose progress has this id, ends at this sequence, and began anew with another one."""
    table = SimpleNamespace(metadata=lambda: SimpleNamespace(id=id))
    progress = SimpleNamespace(table=table, sequence=sequence, began_anew_at=anew)
    return Input(cast(Any, SimpleNamespace(name=name)), cast(Any, progress), cast(Any, None))


def progress_of_join(**up_to: int) -> Any:
    """The progress of a joined source that has read each input, by its name and id, up to a sequence."""
    readings = {name: SimpleNamespace(next_offsets={0: sequence + 1}) for name, sequence in up_to.items()}
    unread = SimpleNamespace(next_offsets={})
    return SimpleNamespace(
        last_read=lambda: SimpleNamespace(topic_ids={name: name for name in up_to}),
        readings=lambda ids: {id: readings.get(id, unread) for id in ids},
    )


def test_inputs_that_reach_as_far_as_they_were_joined_are_taken() -> None:
    inputs = [table_of("orders", "orders", 5), table_of("payments", "payments", 9)]
    refuse_other_inputs(PAID, progress_of_join(), inputs)
    refuse_other_inputs(PAID, progress_of_join(orders=5, payments=7), inputs)


def test_an_older_copy_of_an_input_is_refused() -> None:
    inputs = [table_of("orders", "orders", 5), table_of("payments", "payments", 9)]
    with pytest.raises(SourceError, match=r"of source 'orders' end at sequence 5, and source 'paid' has read .* to 6"):
        refuse_other_inputs(PAID, progress_of_join(orders=6, payments=9), inputs)


def test_other_tables_of_an_input_are_refused() -> None:
    inputs = [table_of("orders", "orders", 5), table_of("payments", "another", 9)]
    with pytest.raises(SourceError, match="the tables of source 'payments' are others than those"):
        refuse_other_inputs(PAID, progress_of_join(orders=5, payments=5), inputs)


def test_an_input_that_was_made_anew_is_refused_by_what_has_read_it_before() -> None:
    inputs = [table_of("orders", "orders", 9, anew=6), table_of("payments", "payments", 9)]
    refuse_other_inputs(PAID, progress_of_join(), inputs)
    refuse_other_inputs(PAID, progress_of_join(orders=6, payments=9), inputs)
    with pytest.raises(SourceError, match=r"all events of source 'orders' were made anew .*: `hourline reset paid`"):
        refuse_other_inputs(PAID, progress_of_join(orders=5, payments=9), inputs)


def test_events_that_are_taken_back_count_for_the_size_of_a_micro_batch() -> None:
    rows = [
        ProgressRow(
            sequence, "id", "a", (), RecordCounts(), (), (), NOON, NOON, NOON, taken_back=(TakenBack(NOON, 40),)
        )
        for sequence in (1, 2, 3)
    ]  # fmt: skip
    assert [row.sequence for row in split_rows(rows, 100)] == [1, 2]


def test_both_sides_of_a_self_join_have_the_same_new_rows_whenever_its_input_commits() -> None:
    class Commits:
        """The progress of an input that finishes a micro-batch before each look."""

        sequence = 5

        @property
        def table(self) -> Any:
            return self

        def update_incremental(self) -> None:
            self.sequence += 1

        def rows(self, after: int, up_to: int) -> list[int]:
            return [*range(after + 1, up_to + 1)]

    trips = Input(cast(Any, SimpleNamespace(name="trips")), cast(Any, Commits()), cast(Any, None))
    assert cast(Any, new_rows([trips, trips], [5, 5])) == [[6], [6]]


def test_both_sides_of_a_source_that_is_joined_with_itself_are_read_at_one_version(tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/trips.yaml": "topic: t\nfields: {rider: string, at: timestamp}\nevent_time: at\n",
        "sources/returns.yaml": "join: {left: trips, right: {source: trips, as: back}, on: rider, within: 1h}\n",
        "sources/others.yaml": "join: {left: trips, right: returns, on: {rider: back_rider}, within: 1h}\n",
    }
    project = load_project(write_project(tmp_path, files))
    layout = Layout.of(project)
    for name in ("trips", "returns"):
        source = project.sources[name]
        open_or_create(layout.progress(source), {}, "progress", PROGRESS_SCHEMA, {}, "")
        open_or_create(layout.events(source), {}, "events", EVENT_SCHEMA, {}, "")
    left, right = open_inputs(project, project.sources["returns"])
    # Two objects would be refreshed one after the other, and a micro-batch in between would be read of one side alone.
    assert left is right
    left, right = open_inputs(project, project.sources["others"])
    assert (left.source.name, right.source.name) == ("trips", "returns")
