"""A changed row of a lookup touches the hours in which an event that counts meets it, and no other one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pytest

from batch_layer.changed_lookups import _Archive
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.lookups.versions import commit_version, open_versions
from hourline_core.model import load_project
from speed_layer.commit.source_tables import open_source_tables
from tests.support.lookup_rows import take
from tests.support.project_files import write_project

HOURS = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=place) for place in range(500)]
CHANGED = "b"
FILES = {
    "hourline.yaml": "",
    "lookups/price.yaml": "table: prices.csv\nkey: kind\ncolumns: {kind: string, price: long}\n",
    "metrics/earned.yaml": "source: sales\nmeasures: {all: sum(price.price)}\n",
}
FIELDS = "fields: {kind: string, sale: string, at: timestamp}\nevent_time: at\n"
SALES = f"topic: sales\n{FIELDS}lookups: {{price: kind}}\n"
JOINED = {
    "sources/orders.yaml": f"topic: orders\n{FIELDS}",
    "sources/payments.yaml": f"topic: payments\n{FIELDS}",
    "sources/sales.yaml": """\
        join: {left: orders, right: payments, on: sale, within: 1h, type: left}
        lookups: {price: orders_kind}
        """,
}
"""The id of a left join is its field ``unmatched``."""


class Archived(NamedTuple):
    """An event of the archive, which has them in the order of arrival within each sequence."""

    sequence: int
    hour: datetime
    identity: str | None
    kind: str


@pytest.mark.parametrize(
    ("counts", "identity", "kind", "sources"),
    [
        ("every", "sale", "kind", {"sources/sales.yaml": SALES}),
        ("every", "sale", "kind", {"sources/sales.yaml": f"{SALES}id: md5(sale)\n"}),
        ("first", "sale", "kind", {"sources/sales.yaml": f"{SALES}id: concat('sale ', sale)\n"}),
        ("only", "unmatched", "orders_kind", JOINED),
    ],
)
def test_an_hour_is_touched_by_an_event_that_counts(
    counts: str, identity: str, kind: str, sources: dict[str, str], tmp_path: Path
) -> None:
    """Of the events of an id and hour, each one ``counts``, the first one, or the only one. If Spark alone evaluates
    the id, nobody knows which ones are the first.
    """
    project = load_project(write_project(tmp_path, {**FILES, **sources}))
    layout, price, source = Layout.of(project), project.lookups["price"], project.sources["sales"]
    open_source_tables(layout, source, pa.schema({identity: pa.string(), kind: pa.string()}), [])
    for value in (1, 2):
        rows = take(price, pa.table({"kind": ["a", CHANGED], "price": [1, value]})).rows
        commit_version(layout, price, open_versions(layout, price), rows)
    archived, cutoffs = some_events()
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("archived", rows_of(archived, identity, kind))
        database.execute("CREATE SCHEMA hourline; CREATE TABLE hourline.events_sales AS FROM archived")
        archive = _Archive(database, project, source, pytest.fail)
        touched = archive.find_touched(project.metrics["earned"], price, (1, 2), cutoffs)
    wanted = {hour for hour in HOURS if meets_changed(counts, archived, hour, cutoffs[hour])}
    assert 100 < len(wanted) < 400
    assert touched == wanted


def some_events() -> tuple[list[Archived], dict[datetime, int]]:
    """Up to four events of each hour, and the cutoff of each."""
    random, archived = Random(19), list[Archived]()  # noqa: S311
    few_and_many: list[list[str | None]] = [[None], ["x"], ["x", "y", None]]
    for hour in HOURS:
        identities = random.choice(few_and_many)
        events = range(random.randrange(5))
        archived += [
            Archived(random.randrange(1, 4), hour, random.choice(identities), random.choice("aab")) for _ in events
        ]
    return archived, {hour: random.randrange(1, 4) for hour in HOURS}


def meets_changed(counts: str, archived: list[Archived], hour: datetime, cutoff: int) -> bool:
    """Whether an event that counts in the hour up to the cutoff meets the changed row."""
    kinds: dict[object, list[str]] = {}
    for one in sorted(archived, key=lambda one: one.sequence):
        if one.hour == hour and one.sequence <= cutoff:
            alone = one.identity is None or counts == "every"
            kinds.setdefault(object() if alone else one.identity, []).append(one.kind)
    return any(of[0] == CHANGED for of in kinds.values() if counts != "only" or len(of) == 1)


def rows_of(archived: list[Archived], identity: str, kind: str) -> pa.Table:
    """The columns of the archive that are read."""
    columns = {
        "sequence": pa.array([one.sequence for one in archived], pa.int64()),
        "hour": pa.array([one.hour for one in archived], TIMESTAMP),
        "event_time": pa.array([one.hour for one in archived], TIMESTAMP),
        identity: pa.array([one.identity for one in archived], pa.string()),
        kind: pa.array([one.kind for one in archived], pa.string()),
        "topic_id": pa.array(["topic"] * len(archived), pa.string()),
        "partition": pa.array([0] * len(archived), pa.int32()),
        "offset": pa.array(range(len(archived)), pa.int64()),
    }
    return pa.table(columns)
