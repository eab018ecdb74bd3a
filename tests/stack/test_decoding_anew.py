"""After a recompute, an hour is what it would be if today's declaration had been there from the first record."""

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from batch_layer.decoding.missing_bytes import find_hours_without_bytes
from hourline.exit_status import BLOCKED
from hourline_core.errors import UsageError
from hourline_core.ledger.raw_records import notes_on_raw_records
from hourline_core.model.hours import parse_hour
from tests.support.changing_shop import FILES, Row, Shop, by_hour, sale

pytestmark = pytest.mark.heavy


def test_fields_that_are_declared_later_count_in_all_of_history(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "later_fields")
    shop.declare(
        "fields: {id: string, at: timestamp, amount: {type: long, required: true}}\nevent_time: at\nid: id",
        FILES["metrics/revenue.yaml"],
    )
    # In an hour before all others, which has no event at first.
    rejected = sale(-60, amount=None)
    records = [sale(number) for number in range(300)]
    shop.send([*records, rejected, b'{"id": "x", "at": 5}'])
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11")
    shop.declare(
        "fields: {id: string, at: timestamp, amount: long, shop: string, tip: double}\nevent_time: at\nid: id",
        "{source: sales, dimensions: {shop: shop}, measures: {sales: count, tips: sum(tip)}}",
    )
    more = [sale(number) for number in range(300, 330)]
    shop.send(more)
    (reason,) = [words for words in shop.plan() if "tip" in words]
    assert reason.startswith("field 'shop' is declared since 20")
    assert "field 'tip' is declared since 20" in reason
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T14", "--include-open")
    # The rejected record counts by this declaration, and its hour is not covered yet.
    assert shop.query("SELECT sum(sales) FROM revenue") == [(330,)]
    assert [row[0] for row in shop.query("DESCRIBE revenue") if row[0] == "shop"] == []
    shop.command("backfill", "--from", "2026-03-02T05", "--to", "2026-03-02T14", "--include-open")
    answer = shop.query("SELECT hour, shop, sales, tips FROM revenue WHERE state = 'final'")
    assert {tuple(row[:2]): tuple(row[2:]) for row in answer} == by_hour(
        [*records, rejected, *more], "at", lambda record: (record["shop"],), "tip"
    )
    assert shop.query("SELECT DISTINCT cause FROM drift WHERE cause IN ('unexplained')") == []
    assert shop.plan() == {}


@pytest.mark.long
def test_explain_shows_which_records_are_rejected_now(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "rejected_now")
    shop.send([sale(number, tip="much" if number % 20 == 7 else 1) for number in range(120)])
    shop.declare(
        "fields: {id: string, at: timestamp, amount: long, shop: string, tip: double}\nevent_time: at\nid: id",
        "{source: sales, dimensions: {shop: shop}, measures: {sales: count, tips: sum(tip)}}",
    )
    shop.drain()
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    explained = shop.command("explain", "revenue", "2026-03-02T09", "shop=north")
    assert "60 accepted of the hour (before shop)" in explained
    assert "decoded anew by today's declaration: 57 of the hour, none moved to other hours, 3 rejected" in explained
    assert "3 rejected, the first at rejected_now[0] offset 67: field 'tip': got \"much\", want double" in explained


@pytest.mark.long  # tests/protocol/test_decoding_anew.py moves them by the same fold.
def test_events_move_to_other_hours_at_once(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "moved_events")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    shop.command("recompute")
    shop.declare(
        "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}\nevent_time: sent_at\nid: id",
        FILES["metrics/revenue.yaml"],
    )
    more = [sale(number) for number in range(240, 260)]
    shop.send(more)
    before = shop.query("SELECT sum(sales), sum(amount) FROM revenue")
    assert before == [(260, sum(range(260)))]
    # One hour alone cannot be published: its events come from the one before, and go to the one after.
    shop.command("recompute", "--from", "2026-03-02T09", "--to", "2026-03-02T10")
    answer = shop.query("SELECT hour, sales, amount FROM revenue")
    assert {tuple(row[:1]): tuple(row[1:]) for row in answer} == by_hour(
        [*records, *more], "sent_at", lambda record: (), "amount"
    )
    assert shop.query("SELECT sum(sales), sum(amount) FROM revenue") == before
    # The hours have as many events as count in them, also those in which none has arrived.
    listed = shop.query("SELECT hour, events FROM hours WHERE events > 0")
    assert dict(listed) == {hour: sales for hour, sales, _ in answer}


@pytest.mark.long
def test_decoding_anew_is_killed_in_the_driver_and_in_a_task(kafka: str, tmp_path: Path) -> None:
    """``tests/protocol/test_decoding_anew.py`` kills it everywhere, without Spark."""
    shop = Shop(tmp_path, kafka, "killed_decoding")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    times = "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}"
    shop.declare(f"{times}\nevent_time: sent_at\nid: id", FILES["metrics/revenue.yaml"])
    shop.drain()
    whole = ("recompute", "--from=2026-03-02T08", "--to=2026-03-02T13", "--include-open")
    assert shop.killed(*whole, failpoint="kill before append decoded") == -signal.SIGKILL
    assert shop.decoded_rows() == []
    assert shop.killed(*whole, failpoint="kill after append decoded") == -signal.SIGKILL
    assert shop.decoded_rows() == [240]
    # Spark evaluates this event time, and writes in other tasks.
    shop.declare(f"{times}\nevent_time: coalesce(sent_at, at)\nid: id", FILES["metrics/revenue.yaml"])
    assert shop.killed(*whole, failpoint="kill after write decoded") == 0, "Spark runs the task again"
    assert shop.decoded_rows() == [240, 240]
    answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final'")
    assert {tuple(row[:1]): tuple(row[1:]) for row in answer} == by_hour(
        records, "sent_at", lambda record: (), "amount"
    )


@pytest.mark.long
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
def test_a_field_gets_another_type(kafka: str, tmp_path: Path, is_kept: bool) -> None:
    shop = Shop(tmp_path, kafka, f"other_types_{is_kept}".lower())
    raw = "" if is_kept else "\nraw: false"
    shop.declare(
        f"fields: {{id: string, at: timestamp, amount: string}}\nevent_time: at{raw}",
        "{source: sales, measures: {sales: count, longest: max(length(amount))}}",
    )
    texts = [sale(number, amount="many" if number % 10 == 0 else str(number)) for number in range(60)]
    numbers = [sale(number) for number in range(60, 120)]
    shop.send([*texts, *numbers])
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    assert shop.query("SELECT sum(sales) FROM revenue") == [(60,)]
    shop.declare(
        f"fields: {{id: string, at: timestamp, amount: long}}\nevent_time: at{raw}",
        "{source: sales, measures: {sales: count, amount: sum(amount)}}",
    )
    shop.send([sale(number) for number in range(120, 130)])
    if is_kept:
        shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
        answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final' ORDER BY hour")
        ten = parse_hour("2026-03-02T10")
        assert [row for row in answer if row[0] < ten] == [(parse_hour("2026-03-02T09"), 60, sum(range(60, 120)))]
        reasons = dict(shop.query("SELECT reason, count(*) FROM rejected_sales GROUP BY ALL"))
        assert reasons["field 'amount': got 60, want string"] == 1
    else:
        assert set(shop.plan()) <= {"never covered"}


@pytest.mark.long
def test_events_count_that_a_speed_layer_rejects_by_an_older_declaration(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "older_speed_layer")
    metric, source = "{source: sales, measures: {sales: count}}", "fields: {id: string, at: timestamp, amount: TYPE}"
    shop.declare(f"{source.replace('TYPE', 'long')}\nevent_time: at\nid: id", metric)
    shop.send([sale(number) for number in range(240)])
    older = shop.project
    shop.declare(f"{source.replace('TYPE', 'double')}\nevent_time: at\nid: id", metric)
    shop.command("recompute")
    assert shop.plan() == {}
    # The speed layer has not started again. s7 has counted before.
    shop.send([sale(number, amount=0.5, id=f"s{id}") for number, id in [(7, 7), *enumerate(range(300, 310))]], older)
    results = tmp_path / "results.json"
    shop.command("plan", "--results", str(results))
    said = {"planned": 0, "hours": 0, "to_decode": 1, "outdated_lookups": 0, "findings": True}
    assert json.loads(results.read_text()) == said
    shop.command("recompute")
    exact = [(parse_hour("2026-03-02T08"), 70, "final"), (parse_hour("2026-03-02T09"), 60, "final")]
    assert shop.query("SELECT hour, sales, state FROM revenue ORDER BY hour LIMIT 2") == exact
    # Read again, a record is the one whose bytes have been decoded anew.
    shop.command("reset", "sales", "--yes")
    shop.drain()
    assert shop.query("SELECT hour, sales, state FROM revenue ORDER BY hour LIMIT 2") == exact


@pytest.mark.long
def test_a_person_accepts_all_hours_between_which_events_move(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "accepted_moves")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T12", "--include-open")
    before = shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour")
    moved = "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}\nevent_time: sent_at\nid: id"
    metric = (
        "{source: sales, measures: {sales: count, amount: sum(amount)}, "
        "expectations: [{expect_column_values_to_be_between: {column: sales, min_value: 20}}]}"
    )
    shop.declare(moved, metric)
    shop.command("recompute", status=BLOCKED)
    assert shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour") == before
    found = shop.command("quality", "--blocked", status=None)
    assert "it passed, but events move between it and an hour that did not" in found
    # What was audited is not what another declaration makes of the records.
    shop.declare(moved.replace("amount: long", "amount: long, shop: string"), metric)
    assert shop.plan() == {"blocked": {"08", "09"}}
    words = ("--reason", "few are right")
    with pytest.raises(UsageError, match="the declaration of source 'sales' has changed since 2026-03-02T08:00Z"):
        shop.command("accept", "revenue", "2026-03-02T08", *words)
    shop.declare(moved, metric)
    with pytest.raises(UsageError, match="events move between 2026-03-02T08:00Z and 2026-03-02T12:00Z"):
        shop.command("accept", "revenue", "2026-03-02T09", *words)
    assert shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour") == before
    shop.command("accept", "revenue", "2026-03-02T08", *words)
    answer = shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour")
    assert {row[:1]: row[1:] for row in answer} == by_hour(records, "sent_at", lambda record: (), "amount")
    assert shop.query("SELECT DISTINCT cause FROM drift WHERE cause = 'unexplained'") == []
    assert shop.plan() == {}


@pytest.mark.long
def test_a_corrected_type_gives_results_of_records_that_were_all_rejected(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "all_rejected")
    source = "fields: {id: string, at: timestamp, amount: TYPE}\nevent_time: at\nid: id"
    shop.declare(source.replace("TYPE", "boolean"), "{source: sales, measures: {sales: count}}")
    records = [sale(number) for number in range(120)]
    shop.send(records)
    shop.declare(source.replace("TYPE", "long"), FILES["metrics/revenue.yaml"])
    hours = ("--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    # The metric has another declaration, which begins with the next start of the speed layer.
    assert "nothing to recompute" in shop.command("recompute", *hours)
    assert shop.query("FROM revenue") == []
    shop.drain()
    shop.command("backfill", *hours)
    answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final'")
    assert {row[:1]: row[1:] for row in answer} == by_hour(records, "at", lambda record: (), "amount")
    # No event has arrived that gives the source a clock.
    assert shop.query("SELECT DISTINCT closed FROM hours") == [(False,)]
    assert "final" in shop.command("status")
    assert "2026-03-02 09:00 UTC: final" in shop.command("explain", "revenue", "2026-03-02T09")


@pytest.mark.long
def test_hours_lack_the_bytes_of_their_own_records_only(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "kept_again")
    source = "fields: {id: string, at: timestamp, amount: long}\nevent_time: at\nid: id"
    shop.declare(source, FILES["metrics/revenue.yaml"])
    shop.send([sale(number) for number in range(60)])
    shop.declare(f"{source}\nraw: false", FILES["metrics/revenue.yaml"])
    shop.send([sale(number) for number in range(60, 120)])
    shop.declare(
        source.replace("long", "long, tip: double"), "{source: sales, measures: {sales: count, amount: sum(tip)}}"
    )
    shop.send([sale(number) for number in range(120, 180)])
    (words,) = notes_on_raw_records(shop.project)
    assert "the bytes of the records from sequence 2 up to sequence 2 were not kept" in words
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour")
    assert answer == [
        (parse_hour("2026-03-02T08"), 60, sum(range(60)) / 4, "final"),
        (parse_hour("2026-03-02T10"), 60, sum(range(120, 180)) / 4, "final"),
    ]
    assert shop.query("SELECT hour FROM hours WHERE kind = 'metric' AND state = 'missing'") == [
        (parse_hour("2026-03-02T09"),)
    ]
    # Kafka still has the records. Read again, they count once, and their bytes are there.
    assert find_hours_without_bytes(shop.project) == {"sales": {parse_hour("2026-03-02T09")}}
    shop.command("reset", "sales", "--yes")
    shop.drain()
    assert shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour") == answer
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
    answer.insert(1, (parse_hour("2026-03-02T09"), 60, sum(range(60, 120)) / 4, "final"))
    assert shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour") == answer
    assert shop.plan() == {}
    assert shop.query("SELECT count(*) FROM drift WHERE cause = 'unexplained'") == [(0,)]
    assert shop.query("SELECT count(*) FROM rejected_sales") == [(0,)]


@pytest.mark.long
def test_rejected_events_of_a_record_count_once_it_is_decoded_anew(kafka: str, tmp_path: Path) -> None:
    """The bytes of a record are with the first of its rejected events. With ``raw: false``, the others stand."""
    shop = Shop(tmp_path, kafka, "rejected_events")
    fields = "fields: {items: 'array<struct<at: string, n: long>>'}\nexplode: {item: items}\n"
    metric = "{source: sales, measures: {sales: count, amount: sum(item.n)}}"

    def orders(numbers: range) -> list[Row]:
        texts = ("2026-03-02T08:10:00Z", "at 2026-03-02T08:20:00Z", "at 2026-03-02T09:10:00Z")
        return [{"items": [{"at": at, "n": number} for at in texts]} for number in numbers]

    for raw, numbers in (("\nraw: false", range(5)), ("", range(5, 10))):
        shop.declare(f"{fields}event_time: item.at{raw}", metric)
        shop.send(orders(numbers))
    assert shop.query("SELECT sales, amount FROM revenue") == [(10, 45)]
    bodies = [json.loads(value) for (value,) in shop.query("SELECT value FROM rejected_sales")]
    assert sorted(body["items"][0]["n"] for body in bodies) == sorted([*range(10)] * 2)
    shop.declare(f"{fields}event_time: \"replace(item.at, 'at ', '')\"", metric)
    shop.send(orders(range(10, 12)))
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour")
    total = sum(range(12))
    exact = [
        (parse_hour("2026-03-02T08"), 24, 2 * total, "final"),
        (parse_hour("2026-03-02T09"), 12, total, "final"),
    ]
    assert answer == exact
    # A reset brings the bytes of the first five. By another event time, their events move.
    shop.command("reset", "sales", "--yes")
    shop.drain()
    later = "timestampadd(HOUR, 1, to_timestamp(replace(item.at, 'at ', '')))"
    shop.declare(f'{fields}event_time: "{later}"', metric)
    shop.drain()
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue WHERE sales > 0 ORDER BY hour")
    assert answer == [(hour + timedelta(hours=1), *row) for hour, *row in exact]
