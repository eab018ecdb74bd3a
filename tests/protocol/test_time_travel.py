"""An old answer can be had again, exactly, after whatever has been processed, published, pruned, compacted and vacuumed
since; or it is refused.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from batch_layer.maintenance import Maintenance
from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.time_travel import token_of
from hourline_core.ledger.token import AnswerToken
from hourline_core.model import BatchSettings, Settings
from hourline_core.model.hours import wall_clock
from hourline_core.storage.opening import open_table
from speed_layer.commit.maintenance import maintain_source, maintain_stopped
from tests.support.bare_tables import METRICS, SOURCE, BareTables
from tests.support.examples import examples

HOURS = [0, 1, 2, 0, 1, 3, 2, 0, 4, 3, 1, 5, 0, 4, 6, 2, 5, 7, 1, 6]
VIEWS = [
    *METRICS,
    *(f"{metric}_states" for metric in METRICS),
    "hours",
    "drift",
    "quality",
    "late_events",
    "events_clicks",
    "rejected_clicks",
]
Answers = dict[str, list[tuple[Any, ...]]]
Told = list[tuple[str, Answers, datetime]]
"""Tokens, what was answered, and when."""


def answers(tables: BareTables, as_of: str | None = None) -> Answers:
    with serving_layer.connect(tables.project, as_of=as_of) as connection:
        return of_every_view(connection)


def of_every_view(connection: serving_layer.Connection) -> Answers:
    """What they answer, whatever may have been forgotten."""
    return {view: connection.database.execute(f"FROM {view} ORDER BY ALL").fetchall() for view in VIEWS}


def tables_in(folder: Path) -> BareTables:
    tables = BareTables(folder, HOURS)
    tables.project = replace(tables.project, settings=Settings())
    tables.start()
    return tables


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[BareTables, Told]:
    """Tables with a history of micro-batches, publications and maintenance, and what was answered in between."""
    tables = tables_in(tmp_path_factory.mktemp("made"))
    found: Told = []

    def ask() -> None:
        with serving_layer.connect(tables.project) as connection:
            found.append((connection.token, of_every_view(connection), wall_clock()))

    for number in range(7):
        tables.micro_batch(3)
        ask()
        if number % 2:
            tables.publish(*range(number), blocked=[1] if number == 5 else ())
            ask()
        if number == 4:
            maintain_source(tables.project, tables.source_tables)
            tables.start()
            ask()
    return tables, found


@pytest.fixture
def told(made: tuple[BareTables, Told], tmp_path: Path) -> tuple[BareTables, Told]:
    """The same, for one test alone."""
    shutil.copytree(made[0].project.root, tmp_path / "told")
    return tables_in(tmp_path / "told"), made[1]


def test_every_answer_is_repeated_as_it_was(told: tuple[BareTables, Told]) -> None:
    tables, found = told
    for number in range(12):  # Delta writes a checkpoint of the log meanwhile.
        tables.publish(*range(number % 8 + 1))
    maintain_stopped(tables.project, SOURCE)
    list(Maintenance(tables.project).run())
    for token, answered, moment in found:
        assert answers(tables, token) == answered
        assert token_of(tables.project, moment.isoformat(), wall_clock()) == AnswerToken.parse(token)


@pytest.mark.long  # test_every_answer_is_repeated_as_it_was asks for past ones, too.
def test_where_provisional_is_no_longer_kept_final_hours_are_as_they_were_and_the_others_are_missing(
    told: tuple[BareTables, Told],
) -> None:
    tables, found = told
    tables.publish(*range(8))  # all is final
    maintain_stopped(tables.project, SOURCE, kept_hours=0)
    list(Maintenance(tables.project, kept_hours=0).run())
    seen = set()
    for token, answered, _ in found:
        repeated = answers(tables, token)
        with serving_layer.connect(tables.project, as_of=token) as connection:
            for metric in METRICS:
                states = {row[2]: row[3] for row in answered["hours"] if row[:2] == ("metric", metric)}
                now = {row[2]: row[3] for row in repeated["hours"] if row[:2] == ("metric", metric)}
                assert {state for hour, state in now.items() if state != states[hour]} <= {"missing"}
                # Whether what lay above the cutoff passed the metric's `where` is not known any more.
                assert metric == "odd" or all(
                    now[hour] == "final" for hour, state in states.items() if state == "final"
                )
                assert repeated[metric] == [row for row in answered[metric] if now[row[0]] != "missing"]
                seen |= set(now.values())
                final = [hour for hour, state in now.items() if state == "final"]
                chosen = f"FROM {metric} WHERE hour IN ({', '.join(repr(str(hour)) for hour in final) or 'NULL'}) ORDER BY ALL"
                assert connection.sql(chosen).fetchall() == [row for row in answered[metric] if row[0] in final]
                if "missing" in now.values():
                    with pytest.raises(
                        UsageError, match="the result included provisional rows, which are only kept for"
                    ):
                        connection.sql(f"FROM {metric}")
    assert seen >= {"final", "missing"}


def test_what_final_needs_is_kept_as_long_as_the_settings_say(told: tuple[BareTables, Told]) -> None:
    tables, found = told
    tables.project = replace(tables.project, settings=Settings(batch=BatchSettings(answers_kept=timedelta(0))))
    list(Maintenance(tables.project, kept_hours=0).run())
    with serving_layer.connect(tables.project) as connection:
        assert answers(tables, connection.token) == answers(tables)
    refused = 0
    for token, answered, _ in found:
        try:
            assert answers(tables, token)["quality"] == answered["quality"]
        except UsageError as error:
            assert (
                "are no longer kept; results can be repeated for 0:00:00 (batch.answers_kept in hourline.yaml)"
                in str(error)
            )
            refused += 1
    assert refused > 0


def test_what_is_damaged_is_not_said_to_be_old(told: tuple[BareTables, Told]) -> None:
    tables, _ = told
    with serving_layer.connect(tables.project) as connection:
        token = connection.token
    Path(open_table(tables.layout.final(SOURCE, METRICS["totals"]), {}).file_uris()[0]).unlink()
    with pytest.raises(TableError, match=r"final/totals/.* is damaged: its file .* is missing"):
        serving_layer.connect(tables.project, as_of=token)


def test_what_never_was_is_refused(told: tuple[BareTables, Told]) -> None:
    tables, _ = told
    newest = open_table(tables.layout.coverage, {}).version()
    for as_of, said in (
        (f"p{newest + 1}-clicks.3", f"there is no publication {newest + 1} yet; the newest is {newest}"),
        (f"p{newest}-clicks.999", "source 'clicks' has no micro-batch 999; the newest is"),
        (f"p{newest}-click.3", "there is no source 'click' — did you mean 'clicks'?"),
        (
            f"p{newest}-clicks.1",
            f"there never was an answer p{newest}-clicks.1: publication {newest} counts clicks up to sequence",
        ),
        ("yesterday", "'yesterday' is neither a token nor a time"),
        (f"p{newest}", f"there never was an answer p{newest}: publication {newest} counts clicks up to sequence"),
        ("2999-01-01", "'2999-01-01' lies in the future: it is 20"),
        ("2020-01-01", "nothing had been processed by 2020-01-01T00:00:00Z"),
    ):
        with pytest.raises(UsageError) as error:
            serving_layer.connect(tables.project, as_of=as_of)
        assert said in str(error.value)


STEPS = st.one_of(
    st.tuples(st.just("micro_batch"), st.integers(1, 3)),
    st.tuples(st.just("publish"), st.sets(st.integers(0, 4), min_size=1)),
    st.tuples(st.just("maintain"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1.5, 30.0])),
)


@settings(max_examples=examples(2))
@given(steps=st.lists(STEPS, min_size=2, max_size=4))
def test_the_newest_answer_can_be_repeated_and_each_one_for_two_hours(steps: list[tuple[str, Any]]) -> None:
    """Time passes by making files older, which is what the cleanup of a log goes by. A vacuum goes by the log's own
    times, so that it deletes all or nothing.
    """
    with TemporaryDirectory() as folder:
        tables = tables_in(Path(folder))
        tables.micro_batch(2)
        hours, told = 0.0, [(0.0, *newest(tables))]
        for step, how in [*steps, ("wait", 30.0), ("maintain", True)]:
            if step == "micro_batch":
                tables.micro_batch(how)
            elif step == "publish":
                tables.publish(*sorted(how))
            elif step == "wait":
                hours += how
                grow_older(Path(tables.layout.root), how)
            else:
                kept_hours = 0 if hours - told[-1][0] >= 2 else 2
                for table in tables.source_tables.tables if how else ():
                    table.create_checkpoint()
                    table.cleanup_metadata()
                maintain_stopped(tables.project, SOURCE, kept_hours=kept_hours)
                tables.start()
            now = newest(tables)
            for then, token, answered in told:
                if token == now[0] or hours - then < 2:
                    with serving_layer.connect(tables.project, as_of=token) as connection:
                        assert answered == {
                            metric: connection.sql(f"FROM {metric} ORDER BY ALL").fetchall() for metric in METRICS
                        }, f"{token}, after {step}"
            told.append((hours, *now))


def newest(tables: BareTables) -> tuple[str, Answers]:
    """The token of an answer that is given now, and the answer."""
    with serving_layer.connect(tables.project) as connection:
        answers = {metric: connection.sql(f"FROM {metric} ORDER BY ALL").fetchall() for metric in METRICS}
        return connection.token, answers


def grow_older(root: Path, hours: float) -> None:
    for file in root.rglob("*"):
        changed = file.stat().st_mtime - hours * 3600
        os.utime(file, (changed, changed))


def test_an_import_only_project_repeats_its_newest_answer_after_days_of_maintenance(tmp_path: Path) -> None:
    """The version that the last micro-batch made is gone, while later ones hold the same rows."""
    tables = tables_in(tmp_path)
    for _ in range(3):
        tables.micro_batch(3)
    tables.publish(0)
    for _ in range(3):
        maintain_stopped(tables.project, SOURCE, kept_hours=0)
        for metric in METRICS.values():
            uri = tables.layout.provisional(tables.source_tables.source, metric)
            open_table(uri, {}).create_checkpoint()
            grow_older(tmp_path, 30)
            open_table(uri, {}).cleanup_metadata()
    token, answered = newest(tables)
    with serving_layer.connect(tables.project, as_of=token) as connection:
        assert {metric: connection.sql(f"FROM {metric} ORDER BY ALL").fetchall() for metric in METRICS} == answered


def test_an_answer_can_be_repeated_for_two_hours_however_old_the_last_micro_batch_is(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    tables.micro_batch(3)
    tables.publish(0)
    for metric in METRICS.values():
        open_table(tables.layout.provisional(SOURCE, metric), {}).create_checkpoint()
    tables.micro_batch(1)
    grow_older(tmp_path, 30)
    token, answered = newest(tables)
    tables.publish(0, 1, 2)
    maintain_stopped(tables.project, SOURCE)
    for _ in range(2):
        for metric in METRICS.values():
            pruned = open_table(tables.layout.provisional(SOURCE, metric), {})
            pruned.create_checkpoint()
            pruned.cleanup_metadata()
        assert newest(tables)[1] != answered, "the states are others now"
        with serving_layer.connect(tables.project, as_of=token) as connection:
            assert {metric: connection.sql(f"FROM {metric} ORDER BY ALL").fetchall() for metric in METRICS} == answered
        grow_older(tmp_path, 1.5)


@pytest.mark.parametrize("fetch", ["fetchall", "fetchone", "to_arrow_table", "df", "batches", "stream", "narrowed"])
def test_an_error_that_comes_up_while_rows_are_fetched_is_one_of_hourline(tmp_path: Path, fetch: str) -> None:
    tables, moment = tables_in(tmp_path), [datetime(2026, 1, 1, tzinfo=UTC)]
    tables.micro_batch(3)
    connection = serving_layer.Connection(tables.project, lambda: moment[0])
    result = connection.sql("FROM events_clicks")
    ways: dict[str, Callable[[], object]] = {
        "batches": lambda: result.to_arrow_reader().read_all(),
        "stream": lambda: pa.RecordBatchReader.from_stream(result).read_all(),
        "narrowed": lambda: result.filter("hour IS NOT NULL").union(result).order("n").fetchall(),
    }
    reading = ways.get(fetch) or getattr(result, fetch)
    for uri in open_table(tables.layout.events(SOURCE), {}).file_uris():
        Path(uri.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match=r"events/clicks is damaged: its file .* is missing"):
        reading()
    moment[0] += timedelta(hours=2)
    with pytest.raises(UsageError, match=r"files of this snapshot have been deleted: .* 2 hours; .*refresh"):
        reading()
    connection.close()
