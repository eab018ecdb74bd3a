"""The declaration of an upsert: what a row has, what is refused, and what may change."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Project, load_project
from hourline_core.model.decoding import decoding_of, find_other_derivation
from hourline_core.model.topology_text import topology_mermaid, topology_text
from tests.support.project_files import write_project

PAYMENTS = """
topic: payments
key_type: string
fields: {payment: long, revision: int, status: string, amount: double, note: string, at: timestamp}
event_time: at
derived: {dear: amount > 100}
"""
UPSERT = (
    "upsert: {of: payments, key: payment, version: revision, within: 30d, columns: [status, amount], "
    "deleted: \"status = 'void'\"}\n"
)


def declared(folder: Path, *, payments: str = PAYMENTS, rows: str = UPSERT, **others: str) -> Project:
    files = {"hourline.yaml": "", "sources/payments.yaml": payments, "sources/rows.yaml": rows}
    return load_project(write_project(folder, files | {f"sources/{name}.yaml": text for name, text in others.items()}))


def test_a_version_has_the_key_the_columns_and_its_event_time(tmp_path: Path) -> None:
    rows = declared(tmp_path).sources["rows"]
    assert {name: field.type for name, field in rows.fields.items()} == {
        "payments_event_time": "timestamp",
        "payment": "long",
        "status": "string",
        "amount": "double",
        "upsert_row": "string",
    }
    assert rows.id == "upsert_row"
    assert rows.event_time.expression == "payments_event_time"
    assert rows.takes_back
    assert rows.upsert
    assert rows.upsert.within == timedelta(days=30)


def test_the_key_of_the_record_is_the_key_if_none_is_given(tmp_path: Path) -> None:
    rows = declared(tmp_path, rows=UPSERT.replace("key: payment, ", "")).sources["rows"]
    assert [*rows.fields] == ["payments_event_time", "record_key", "status", "amount", "upsert_row"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (UPSERT.replace("of: payments", "of: payment"), "upsert.of: got 'payment', which is no source of this project — did"),
        (UPSERT.replace("revision", "revison"), "upsert.version: got 'revison', which is no declared field of source"),
        (UPSERT.replace("revision", "dear"), "upsert.version: got 'dear', which is no declared field of source"),
        (UPSERT.replace("revision", "amount"), "upsert.version: got 'amount', which is of type double, allowed are int"),
        (UPSERT.replace("key: payment", "key: amount").replace("[status, amount]", "status"), "upsert.key: got 'amount', which is of type double, allowed are"),
        (UPSERT.replace("key: payment", "key: [payment, revision]"), "upsert.version: got 'revision', which is in the key"),
        (UPSERT + "volume: {duplicates: 0.1}", "volume.duplicates: got it beside an upsert, whose events that are taken"),
        (UPSERT.replace("version: revision, ", ""), "upsert.version: is missing"),
        (UPSERT.replace("within: 30d, ", ""), "upsert.within: is missing"),
        (UPSERT.replace("30d", "0s"), "upsert.within: got 0s, allowed is from 1s to 3650d"),
        (UPSERT.replace("30d", "3651d"), "upsert.within: got 3651d, allowed is from 1s to 3650d"),
        (UPSERT + "topic: rows", "topic: got it beside `upsert`, whose events are made of those of its inputs"),
        (UPSERT + "id: status", "id: got it beside an upsert, whose events that may be taken back have an id"),
        (UPSERT + "clock: wall", "clock: got wall beside an upsert, whose hours wait for the clock of its input"),
        (UPSERT + "derived: {Status: upper(status)}", "'Status' of 'rows' itself and field 'status' of 'payments' would"),
        (UPSERT + "derived: {upsert_row: \"'x'\"}", "'upsert_row' of 'rows' itself would both be 'upsert_row'"),
        (UPSERT + "snapshot: {of: payments, columns: note}", "upsert: got it beside `snapshot`, allowed is one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_upsert_is_refused(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, rows=rows + "\n")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"payments": PAYMENTS + "id: payment\n"},
         "got 'payments', whose `id: payment` lacks the version 'revision': a newer version in the same hour would be"),
        ({"payments": PAYMENTS.replace("key_type: string", ""), "rows": UPSERT.replace("key: payment, ", "")},
         "upsert.key: is missing, and the key of a record of source"),
        ({"payments": PAYMENTS + "branch: status = 'paid'\n", "rows": UPSERT.replace("key: payment, ", ""),
          "all": PAYMENTS + "branch: otherwise\n"},
         "upsert.key: is missing, and records without a value, which delete rows, do not reach source 'payments'"),
        ({"again": UPSERT.replace("of: payments", "of: rows")}, "got 'rows', which is an upsert of 'payments', allowed"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_one_is_refused(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, **changed)
    assert said in str(refused.value)


@pytest.mark.parametrize("id", ["concat_ws(':', payment, Revision)", "both"])
def test_an_id_with_the_version_is_allowed(tmp_path: Path, id: str) -> None:
    derived = "derived: {dear: amount > 100, number: revision + 1, both: \"concat_ws(':', payment, number)\"}"
    declared(tmp_path, payments=PAYMENTS.replace("derived: {dear: amount > 100}", derived) + f"id: {id}\n")


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"payments": PAYMENTS.replace("note: string", "note: int")}, []),
        ({"payments": PAYMENTS.replace("revision: int", "revision: long")}, ["fields of source 'payments'"]),
        ({"rows": UPSERT.replace("30d", "31d")}, ["upsert"]),
        ({"rows": UPSERT.replace("void", "gone")}, ["upsert"]),
    ],
)
def test_what_decides_about_versions_is_told_from_what_does_not(
    tmp_path: Path, changed: dict[str, str], found: list[str]
) -> None:
    before = decoding_of(declared(tmp_path / "before").sources["rows"])
    now = decoding_of(declared(tmp_path / "now", **changed).sources["rows"])
    assert find_other_derivation(before, now) == found


def test_the_topology_shows_the_table(tmp_path: Path) -> None:
    project = declared(tmp_path)
    said = (
        "source payments\n  source rows: an upsert of payments by payment: the greatest revision within 30d; deleted if"
    )
    assert said in topology_text(project)
    assert "source_payments --> source_rows" in topology_mermaid(project)


def test_no_field_of_a_join_of_versions_may_be_called_as_its_id(tmp_path: Path) -> None:
    also = "join: {left: {source: rows, as: joined}, right: payments, on: payment, within: 1h}\n"
    with pytest.raises(DeclarationError) as refused:
        declared(
            tmp_path,
            payments=PAYMENTS.replace("note:", "row:"),
            rows=UPSERT.replace("[status, amount]", "[status, row]"),
            both=also,
        )
    said = "'joined_row' of each join whose events may be taken back and field 'row' of 'joined' would both be 'joined_row'"
    assert said in str(refused.value)
