"""Publications one after the other on real Delta tables: none takes up what another has left, or lets go of what
another has covered.
"""

import random
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import serving_layer
from batch_layer.aggregate import MetricTiles
from batch_layer.publication import MetricPublication, Publication
from batch_layer.recompute_outcome import results_since
from batch_layer.reports.follow import follow
from batch_layer.stage import stage_metric
from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.model.hours import HourRange, wall_clock
from hourline_core.storage.compaction import compact, count_compactable
from hourline_core.storage.opening import open_table
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import BASE, METRICS, SOURCE, TILINGS, BareTables, hour, tiles


class CrashError(Exception):
    """The process dies here."""


def test_what_was_left_unpublished_in_final_is_never_published(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0, 1, 0, 1])
    tables.start()
    tables.micro_batch(2)
    tables.publish(0, 1)
    tables.micro_batch(2)
    with patch.object(Publication, "_commit_coverage", side_effect=CrashError), suppress(CrashError):
        tables.publish(0)
    tables.check()
    with serving_layer.connect(tables.project) as connection:
        assert len(connection.sql("FROM drift").fetchall()) == 4, (
            "one of each metric and hour, by the first publication"
        )
    tables.publish(1)  # on top of it
    tables.check()
    with serving_layer.connect(tables.project) as connection:
        assert len(connection.sql("FROM drift").fetchall()) == 6
    tables.micro_batch(2)
    tables.check()


def test_hours_that_are_published_one_by_one_lie_in_few_sorted_files(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=list(range(12)))
    tables.start()
    for number in range(12):
        tables.micro_batch(1)
        tables.publish(number)
        tables.check()
        of = ("totals", TILINGS[0].declaration)
        final = open_table(tables.layout.final_of(*of), {}, read_coverage(tables.project).of(*of).pinned())
        assert len(final.file_uris()) <= 5
    assert sorted(final.to_pyarrow_table()["hour"].to_pylist()) == [hour(number) for number in range(12)]
    for file in final.file_uris():
        hours = pq.read_table(file)["hour"].to_pylist()
        assert hours == sorted(hours)


def test_coverage_has_few_files_and_the_cutoffs_of_all_hours_whatever_was_published(tmp_path: Path) -> None:
    """Each hour is published when it has arrived, and now and then an older one or one of two metrics."""
    chosen, arriving = random.Random(1), 30  # noqa: S311 (the same numbers each time)
    tables = BareTables(tmp_path, hours=list(range(arriving)))
    tables.start()
    expected: dict[str, dict[datetime, int]] = {metric: {} for metric in METRICS}
    files = []
    for number in range(arriving):
        tables.micro_batch(1)
        metrics = chosen.choice([["totals"], ["odd"], ["totals", "odd"]])
        hours = {number, chosen.choice([number, number, number, chosen.randrange(number + 1)])}
        tables.publish(*hours, metrics=metrics)
        for metric in metrics:
            expected[metric] |= {hour(one): tables.sequence - 1 for one in hours}
        covered = read_coverage(tables.project)
        assert {one.metric.name: covered.of(one.metric.name, one.declaration).cutoffs() for one in TILINGS} == expected
        files.append(len(open_table(tables.layout.coverage, {}).file_uris()))
    assert max(files) == 20
    tables.check()


def test_a_damaged_file_of_other_hours_holds_up_no_publication(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=list(range(7)))
    tables.start()
    tables.micro_batch(7)
    of = ("totals", TILINGS[0].declaration)
    for number in range(7):
        tables.publish(number)
        final = open_table(tables.layout.final_of(*of), {}, read_coverage(tables.project).of(*of).pinned())
        if number == 0:
            (damaged,) = final.file_uris()
            Path(damaged).write_bytes(b"damaged")
    assert set(read_coverage(tables.project).of(*of).cutoffs()) == {hour(number) for number in range(7)}
    assert len(final.file_uris()) == 7, "they are left as they are, for who mends the table"
    with pytest.raises(TableError, match="reset totals"), serving_layer.connect(tables.project) as connection:
        connection.sql("FROM totals").fetchall()


def test_a_merge_of_small_files_leaves_those_among_the_values_of_a_larger_file(tmp_path: Path) -> None:
    uri, folder = str(tmp_path / "table"), tmp_path / "table"

    def append(*values: int) -> str:
        before = set(folder.glob("*.parquet"))
        write_deltalake(uri, pa.table({"sequence": pa.array(values, pa.int64())}), mode="append")
        (file,) = set(folder.glob("*.parquet")) - before
        return file.name

    large = append(*range(0, 90_000, 3))
    inside, ahead = append(50), append(-1)
    after = [append(90_000 + number) for number in range(3)]
    table, below = DeltaTable(uri), (folder / large).stat().st_size
    rows = sorted(table.to_pyarrow_table()["sequence"].to_pylist())
    assert count_compactable(table, below=below) == 2
    compact(table, below=below)
    left = {Path(path).name for path in table.file_uris()}
    assert {large, inside, ahead} < left and not left & {*after}
    assert len(left) == 4
    compact(table)
    assert len(table.file_uris()) == 1, "the daily maintenance merges them"
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == rows


@pytest.mark.parametrize("side", ["before", "after"])
def test_files_that_were_merged_and_not_published_are_restored_away(side: str, tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[*range(6), *range(6)])
    tables.start()
    tables.micro_batch(6)
    for number in range(4):
        tables.publish(number)
    tables.micro_batch(6)

    def reached(place: str) -> None:
        if place == f"{side} compact final":
            raise CrashError

    with patch("hourline_core.runtime.failpoints.visit", reached), pytest.raises(CrashError):
        tables.publish(4)
    tables.check()
    tables.publish(5)
    tables.check()
    tables.publish(*range(6))
    tables.check()


def test_a_publication_that_another_has_overtaken_touches_nothing(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0, 1])
    tables.start()
    tables.micro_batch(4)
    tables.publish(0)
    begun = Publication(tables.project)
    tables.publish(1)
    before = versions(tables)
    with (
        patch("tests.support.bare_tables.Publication", return_value=begun),
        pytest.raises(ConflictError, match=r"coverage/ since version 1; this one stops and changes nothing"),
    ):
        tables.publish(0, 1)
    assert versions(tables) == before
    tables.check()


def test_the_trend_links_to_the_page_of_the_publication_just_made(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1])
    tables.start()
    tables.micro_batch(2)
    aggregation = TILINGS[0]
    for number in (0, 1):
        publication = Publication(tables.project)
        page = page_path(publication.number, page_name("clicks", aggregation.metric.name))
        rows = tiles(aggregation.metric.name, [number])
        metric = MetricPublication(stage_metric(tables.project, MetricTiles(aggregation, [hour(number)], 1, rows)))
        finding = {"audited": BASE, "source": "clicks", "metric": "totals", "hour": hour(number), "success": True}
        findings = pa.Table.from_pylist([{**finding, "expectation": "rows_match", "severity": "fail"}], QUALITY_SCHEMA)
        publication.publish([metric], findings, BASE)
        follow(tables.project, wall_clock)
        assert (report_site(tables.project) / page).is_file()
        trend = "trends/metric-totals.html"
        assert trend in (report_site(tables.project) / "index.html").read_text()
        pages = (report_site(tables.project) / trend).read_text()
        assert all(f"runs/00000{done + 1}/metric-totals.html#" in pages for done in range(number + 1))


def versions(tables: BareTables) -> dict[str, int]:
    """The newest versions of the tables that a publication commits to, whatever coverage pins."""
    layout = tables.layout
    paths = [
        layout.coverage,
        layout.drift,
        layout.quality,
        *(layout.final(SOURCE, metric) for metric in METRICS.values()),
    ]
    return {path: open_table(path, {}).version() for path in paths}


def test_a_publication_of_some_hours_and_metrics_keeps_the_others_covered(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 2, 0, 1, 2, 1])
    tables.start()
    for size, published, metrics in ((3, (0, 1, 2), ("totals", "odd")), (2, (1,), ("totals",)), (2, (1, 2), ("odd",))):
        tables.micro_batch(size)
        tables.publish(*published, metrics=metrics)
        maintain_source(
            tables.project, tables.source_tables
        )  # whose pruning makes an hour that is no longer covered a hole
        tables.check()


def test_what_came_of_hours_is_told_by_their_metrics_and_their_source(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 2])
    tables.start()
    tables.micro_batch(3)
    tables.publish(0, 1, blocked=[1])
    first, second = "2024-03-01T00:00Z", "2024-03-01T01:00Z"
    everything = results_since(tables.project, BASE)
    assert everything["published"] == {"odd": [first], "totals": [first]}
    assert everything["blocked"] == {"odd": [second], "totals": [second]}, (
        "not the first hour, of which another source's audit failed"
    )
    assert len(everything["reports"]) == 2
    assert results_since(tables.project, BASE, HourRange(hour(0), hour(1)))["blocked"] == {}
    assert results_since(tables.project, BASE, HourRange(hour(2), hour(3))) == {
        "published": {},
        "blocked": {},
        "reports": [],
    }
    assert results_since(tables.project, BASE + timedelta(seconds=1)) == {"published": {}, "blocked": {}, "reports": []}


def test_a_blocked_hour_keeps_what_readers_had_until_it_passes(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0, 1, 0, 1, 1])
    tables.start()
    tables.micro_batch(2)
    tables.publish(0, 1)
    tables.micro_batch(2)
    tables.publish(0, 1, blocked=[1])
    assert states(tables) == {
        ("totals", 0): "final",
        ("totals", 1): "blocked",
        ("odd", 0): "final",
        ("odd", 1): "blocked",
    }
    assert cutoffs(tables) == {
        (metric, number): cutoff for metric in ("totals", "odd") for number, cutoff in ((0, 2), (1, 1))
    }, "its cutoff stays what it was"
    assert staged(tables) == [2]
    # The rows of one hour stay while another one is recomputed; what has come since counts on top.
    tables.micro_batch(3)
    tables.publish(0)
    assert staged(tables) == [2]
    tables.check()
    maintain_source(tables.project, tables.source_tables)
    tables.check()
    tables.publish(1)
    assert set(states(tables).values()) == {"final"}
    assert staged(tables) == []
    tables.check()


def test_an_hour_that_is_blocked_from_its_first_recompute_on_stays_provisional(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0])
    tables.start()
    tables.micro_batch(3)
    tables.publish(0, 1, blocked=[0, 1])
    assert set(states(tables).values()) == {"blocked"}
    assert set(cutoffs(tables).values()) == {None}
    maintain_source(tables.project, tables.source_tables)
    tables.check()
    tables.publish(0, 1)
    assert set(states(tables).values()) == {"final"}
    tables.check()


def states(tables: BareTables) -> dict[tuple[str, int], str]:
    with serving_layer.connect(tables.project) as connection:
        rows = connection.sql("SELECT name, hour, state FROM hours WHERE kind = 'metric'").fetchall()
    return {(name, moment.hour): state for name, moment, state in rows}


def cutoffs(tables: BareTables) -> dict[tuple[str, int], int | None]:
    versions = read_coverage(tables.project).versions()
    covered = {of: read_coverage(tables.project).of(*of).cutoffs() for of in {key[:2] for key in versions}}
    return {(metric, hour.hour): covered[metric, of].get(hour) for metric, of, hour in versions}


def staged(tables: BareTables) -> list[int]:
    with serving_layer.connect(tables.project) as connection:
        return [n for (n,) in connection.sql("SELECT n FROM totals_staged ORDER BY hour").fetchall()]
