"""The declaration of a snapshot: what a row has, what is refused, and what may change."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Project, load_project
from hourline_core.model.decoding import decoding_of, find_other_derivation
from hourline_core.model.topology_text import topology_mermaid, topology_text
from tests.support.project_files import write_project

ORDERS = """
topic: orders
key_type: string
fields: {status: string, customer: int, note: string, amount: double, at: timestamp}
event_time: at
derived: {dear: amount > 100}
"""
OPEN = "snapshot: {of: orders, columns: [status, amount], deleted: \"status = 'cancelled'\"}\n"


def declared(folder: Path, *, orders: str = ORDERS, rows: str = OPEN, **others: str) -> Project:
    files = {"hourline.yaml": "", "sources/orders.yaml": orders, "sources/rows.yaml": rows}
    return load_project(write_project(folder, files | {f"sources/{name}.yaml": text for name, text in others.items()}))


def test_a_row_has_the_key_the_columns_and_both_times(tmp_path: Path) -> None:
    rows = declared(tmp_path).sources["rows"]
    assert {name: field.type for name, field in rows.fields.items()} == {
        "snapshot_time": "timestamp",
        "orders_event_time": "timestamp",
        "record_key": "string",
        "status": "string",
        "amount": "double",
        "snapshot_row": "string",
    }
    assert rows.id == "snapshot_row"
    assert rows.takes_back
    assert rows.snapshot
    assert rows.snapshot.every == timedelta(hours=1)


def test_a_key_of_fields_is_in_the_place_of_that_of_the_record(tmp_path: Path) -> None:
    rows = declared(tmp_path, rows="snapshot: {of: orders, key: customer, columns: amount, every: 1d}").sources["rows"]
    assert [*rows.fields] == ["snapshot_time", "orders_event_time", "customer", "amount", "snapshot_row"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "snapshot: {of: order, columns: amount}",
            "snapshot.of: got 'order', which is no source of this project — did you",
        ),
        (
            "snapshot: {of: orders, columns: amonut}",
            "snapshot.columns: got 'amonut', which is no declared field of source",
        ),
        ("snapshot: {of: orders, columns: dear}", "snapshot.columns: got 'dear', which is no declared field"),
        (
            "snapshot: {of: orders, key: custom, columns: amount}",
            "snapshot.key: got 'custom', which is no declared field",
        ),
        (
            "snapshot: {of: orders, key: amount, columns: note}",
            "snapshot.key: got 'amount', which is of type double, allowed",
        ),
        ("snapshot: {of: orders, key: record.key, columns: note}", "which is the key if none is given: leave it out"),
        ("snapshot: {of: orders, key: customer, columns: [note, Customer]}", "allowed is each name once"),
        ("snapshot: {of: orders, columns: []}", "snapshot.columns"),
        (
            "snapshot: {of: orders, columns: note, every: 5h}",
            "snapshot.every: got 5h, allowed are 1h, 2h, 3h, 4h, 6h, 8h",
        ),
        ("snapshot: {of: orders, columns: note, every: 90m}", "snapshot.every: got 1h 30m, allowed are 1h"),
        (OPEN + "topic: rows", "topic: got it beside `snapshot`, whose events are made of those of its inputs"),
        (OPEN + "fields: {a: int}", "fields: got it beside `snapshot`"),
        (OPEN + "id: status", "id: got it beside a snapshot, whose events that may be taken back have an id"),
        (OPEN + "idle: 15m", "idle: got it beside a snapshot, which waits for the clock of each input"),
        (OPEN + "clock: wall", "clock: got wall beside a snapshot, whose hours wait for the clock of its input"),
        (
            OPEN + "derived: {Status: upper(status)}",
            "'Status' of 'rows' itself and field 'status' of 'orders' would both",
        ),
        (OPEN + "derived: {snapshot_row: \"'x'\"}", "'snapshot_row' of 'rows' itself would both be 'snapshot_row'"),
        (OPEN + "join: {left: orders, right: orders, on: status, within: 1h}", "got it beside `join`, allowed is one"),
    ],
)
def test_what_cannot_be_a_snapshot_is_refused(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, rows=rows + "\n")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"orders": ORDERS.replace("key_type: string", "")}, "snapshot.key: is missing, and the key of a record of source"),
        ({"orders": ORDERS + "id: cast(customer AS string)\n", "rows": OPEN.replace("columns", "key: customer, columns")},
         "snapshot.of: got 'orders', whose `id: cast(customer AS string)` is the same for all rows of a key: a newer row"),
        ({"orders": ORDERS + "id: record.key\n"}, "snapshot.of: got 'orders', whose `id: record.key` is the same for all"),
        ({"orders": ORDERS + "explode: {part: note}\n"}, "which explodes its records; allowed is a source without"),
        ({"rows": OPEN.replace("status, amount", "snapshot_row"), "orders": ORDERS.replace("note:", "snapshot_row:")},
         "would both be 'snapshot_row'"),
        ({"again": "snapshot: {of: rows, columns: status}"}, "got 'rows', which is a snapshot of 'orders', allowed is a"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_one_is_refused(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, **changed)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"orders": ORDERS.replace("note: string", "note: int")}, []),
        ({"orders": ORDERS.replace("amount > 100", "amount > 9") + "where: amount > 0\nid: note\n"}, []),
        ({"rows": OPEN + "where: amount > 0\n"}, []),
        ({"orders": ORDERS.replace("amount: double", "amount: float")}, ["fields of source 'orders'"]),
        ({"orders": ORDERS + "ahead: 2d\n"}, ["ahead of source 'orders'"]),
        ({"rows": OPEN.replace("cancelled", "sent")}, ["snapshot"]),
        ({"rows": OPEN.replace("status, amount", "status, amount, note")}, ["snapshot", "fields of source 'orders'"]),
    ],
)
def test_what_decides_about_rows_is_told_from_what_does_not(
    tmp_path: Path, changed: dict[str, str], found: list[str]
) -> None:
    before = decoding_of(declared(tmp_path / "before").sources["rows"])
    now = decoding_of(declared(tmp_path / "now", **changed).sources["rows"])
    assert find_other_derivation(before, now) == found


def test_the_topology_shows_the_table(tmp_path: Path) -> None:
    project = declared(tmp_path)
    assert "source orders\n  source rows: a snapshot of orders by record.key every 1h; deleted if" in topology_text(
        project
    )
    assert "source_orders --> source_rows" in topology_mermaid(project)
